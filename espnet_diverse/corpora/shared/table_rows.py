"""The rows of a table of recordings, checked and normalised."""

import logging
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from espnet_diverse.audio.ark import is_file
from espnet_diverse.audio.segments import milliseconds
from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.siblings import sibling
from espnet_diverse.corpora.shared.splits import SPLITS, set_of
from espnet_diverse.corpora.shared.table_files import Row, Table
from espnet_diverse.data.characters import SURROGATE, clean_text, id_fault, safe_name, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.normalisation import for_wer

_TABLES = {"language": "utt2lang", "target_language": "utt2tgtlang", "domain": "utt2domain"}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One row.

    Attributes:
        where: Line of the row.
        utterance: Id of the utterance.
        recording: Id of the audio file.
        audio: Path of the audio file.
        speaker: The speaker; "" where the table names none.
        set: The set; "" where the table names none.
        transcript: The spoken text; "" if nothing is left of it.
        translation: Its translation; "" if none is read.
        start, end: The part of the audio file in seconds; None for its start and its end.
        conditions: Values by table, such as utt2lang.
        dropped: Reason why the row is left out, or "".
        is_bad: Whether that is a fault.
    """

    where: int | str
    utterance: str
    recording: str
    audio: Path
    speaker: str
    set: str
    transcript: str
    translation: str
    start: float | None
    end: float | None
    conditions: dict[str, str]
    dropped: str
    is_bad: bool


@dataclass
class RowReader:
    """Reads the rows of one table.

    Attributes:
        table: The table.
        columns: Names of the columns in the table, from `find_columns`.
        selection: Options.
        faults: The faults found so far.
        speakers: Names of speakers in the table by name in the data.
    """

    table: Table
    columns: dict[str, str]
    selection: Selection
    faults: list[Fault] = field(default_factory=list)
    speakers: dict[str, str] = field(default_factory=dict)

    def read(self) -> list[Entry]:
        """The rows of the wanted sets without faults, each with a unique id."""
        entries: dict[str, Entry] = {}
        audio_of: dict[str, Path] = {}
        for row in self.table.rows:
            entry = self._entry(row)
            if entry is None:
                continue
            first = entries.get(entry.utterance, entry)
            if first is not entry:
                other = f"line {first.where}" if isinstance(first.where, int) else first.where
                reason = f"utterance {entry.utterance} is also in {other}; remove one, or add a column id"
                self.faults.append(Fault(str(self.table.path), row.where, reason))
            elif audio_of.setdefault(entry.recording, entry.audio) != entry.audio:
                reason = f"would have the id {entry.recording} of {audio_of[entry.recording]} as well; rename a file"
                self._fault(row, "audio", reason)
            else:
                entries[entry.utterance] = entry
        return list(entries.values())

    def _entry(self, row: Row) -> Entry | None:
        """One row; None if it has a fault or is not wanted."""
        before = len(self.faults)
        cells = self._cells(row)
        name = self._set(row, cells)
        if name is None or len(self.faults) > before:
            return None
        audio = self._audio(cells["audio"])
        recording = self._recording(cells, audio)
        start, end = self._times(row, cells)
        conditions = self._conditions(row, cells)
        scored = self.selection.transcripts == "scored"
        text = self._text(row, cells, "text")
        transcript = for_wer(text, conditions.get("utt2lang", "")) if scored else text
        missing = self._missing(row, cells, audio)
        entry = Entry(
            where=row.where,
            utterance=self._utterance(row, cells, recording, (start, end), conditions.get("utt2tgtlang", "")),
            recording=recording,
            audio=audio,
            speaker=self._speaker(cells.get("speaker", "")),
            set=name,
            transcript=transcript,
            translation=self._text(row, cells, "translation") if self.selection.task == "st" else "",
            start=start,
            end=end,
            conditions=conditions,
            dropped=missing or ("" if transcript else f"no words in transcript {text!r}"),
            is_bad=bool(missing),
        )
        return entry if len(self.faults) == before else None

    def _speaker(self, name: str) -> str:
        """The name of a speaker in the data; a notice reports names that differ only in characters that ids lack."""
        safe = safe_name(name)
        if (first := self.speakers.setdefault(safe, name)) != name:
            log.warning(
                "%s: speakers %r and %r are both %s in the data; rename one", self.table.path, first, name, safe
            )
            self.speakers[safe] = name
        return safe

    def _fault(self, row: Row, column: str, reason: str) -> None:
        value = row.values.get(self.columns[column])
        self.faults.append(Fault(str(self.table.path), row.where, f"{self.columns[column]} {value!r}: {reason}"))

    def _cells(self, row: Row) -> dict[str, str]:
        """The values of a row by column, cleaned except for paths of audio; "" where there is no value."""
        cells = {}
        for column, name in self.columns.items():
            value = row.values.get(name)
            text = "" if value is None else str(value)
            cells[column] = text.strip() if column == "audio" else clean_text(text)[0]
            if isinstance(value, bool) or not isinstance(value, str | int | float | None):
                self._fault(row, column, "must be a string or a number")
            elif SURROGATE.search(cells[column]):
                self._fault(row, column, "has half of a surrogate pair; write the character itself")
        return cells

    def _text(self, row: Row, cells: dict[str, str], column: str) -> str:
        reason = text_fault(cells[column])
        if reason:
            self._fault(row, column, reason)
        return cells[column]

    def _set(self, row: Row, cells: dict[str, str]) -> str | None:
        """The set of a row, "" if the table names none; None if it is not wanted or unknown."""
        if "split" not in cells:
            return ""
        name = set_of(cells["split"], self.selection)
        if name is None and not self.selection.sets:
            known = ", ".join(split for names in SPLITS.values() for split in names)
            todo = "name it with --set_names train=NAME, or leave it out with --sets train dev test"
            self._fault(row, "split", f"is no set; known are {known}: {todo}")
        return name if name in self.selection.wanted(SPLITS) else None

    def _missing(self, row: Row, cells: dict[str, str], audio: Path) -> str:
        """The column that the row lacks, or ""; also adds a fault unless such rows are dropped."""
        needed = ("audio", "text", "translation") if self.selection.task == "st" else ("audio", "text")
        lacking = {column: "is empty" for column in needed if not cells[column]}
        if "audio" not in lacking and not is_file(audio):
            match = sibling(cells["audio"], self._folder())
            lacking = {"audio": f"{audio} does not exist" + (f", but {match} is there" if match else "")} | lacking
        if self.selection.on_bad == "error":
            for column, reason in lacking.items():
                self._fault(row, column, f"{reason}; add it")
        return "; ".join(f"{self.columns[column]} {reason}" for column, reason in lacking.items())

    def _times(self, row: Row, cells: dict[str, str]) -> tuple[float | None, float | None]:
        start, end, duration = (
            self._seconds(row, column, cells.get(column, "")) for column in ("start", "end", "duration")
        )
        if duration == 0.0:
            self._fault(row, "duration", "must be more than 0 seconds")
        elif duration is not None:
            end = round((start or 0.0) + duration, 6)
        elif end is not None and end <= (start or 0.0):
            self._fault(row, "end", f"must be after the start at {start or 0:g} s")
        return start, end

    def _seconds(self, row: Row, column: str, value: str) -> float | None:
        if not value:
            return None
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            self._fault(row, column, "must be seconds, from 0, with a point as in 2.5")
            return None
        return seconds

    def _conditions(self, row: Row, cells: dict[str, str]) -> dict[str, str]:
        """Values by table; the target language belongs to translations only."""
        values = {}
        for column, table in _TABLES.items():
            if column in cells and (column != "target_language" or self.selection.task == "st"):
                values[table] = cells[column]
                reason = id_fault(values[table]) if values[table] else "is empty; write it in every row, or in none"
                if reason:
                    self._fault(row, column, reason)
        return values

    def _audio(self, path: str) -> Path:
        """Path of an audio file. A copy of a macOS disk may have decomposed names, while tables are composed."""
        forms = [path] if path.isascii() else [path, *(normalize(form, path) for form in ("NFC", "NFD"))]
        forms += [path.replace("\\", "/")] if "\\" in path else []  # of Windows
        paths = [Path(os.path.normpath(self._folder() / form)) for form in forms]
        return next(filter(is_file, paths), paths[0])

    def _folder(self) -> Path:
        """The directory that paths of audio are relative to."""
        audio_dir = self.selection.audio_dir
        return self.table.path.parent if audio_dir is None else audio_dir.absolute()

    def _recording(self, cells: dict[str, str], audio: Path) -> str:
        """Id of an audio file: its path from the table, without suffix and parts that lead out of the folder."""
        if not cells["audio"]:
            return ""
        parts = Path(os.path.relpath(Path(audio.parent, audio.stem), self._folder())).parts
        return "-".join(safe_name(part) for part in parts if part != "..")

    def _utterance(
        self, row: Row, cells: dict[str, str], recording: str, times: tuple[float | None, float | None], target: str
    ) -> str:
        """The id in the row, or an id made from the recording, the times and the target language."""
        start, end = times
        end = math.inf if end is None else end
        part = [] if start is None and end == math.inf else [milliseconds(start or 0.0), milliseconds(end)]
        made = "-".join(filter(None, [recording or f"row{row.where}", *part, target]))
        utterance = cells.get("id", "")
        reason = id_fault(utterance or made)
        if reason:
            self._fault(row, "id" if utterance else "audio", reason)
        return utterance or made
