"""The rows of a table of recordings, checked and normalised."""

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.splits import SPLITS, set_of
from espnet_diverse.corpora.shared.table_files import Row, Table
from espnet_diverse.data.characters import clean_text, id_fault, safe_name, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.normalisation import for_wer

TODO = "or leave such rows out with --on_missing drop"
_TABLES = {"language": "utt2lang", "target_language": "utt2tgtlang", "domain": "utt2domain"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Entry:
    """One row.

    Attributes:
        where: The line of the row.
        utterance: Id of the utterance.
        recording: Id of the audio file.
        audio: Path of the audio file.
        speaker: The speaker; "" where the table names none.
        set: The set; "" where the table names none.
        transcript: What is said; "" where nothing is left of it.
        translation: Its translation; "" where none is read.
        start, end: The part of the audio file in seconds; None for its start and its end.
        conditions: Values by table, such as utt2lang.
        dropped: Why the row is left out, or "".
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


@dataclass
class RowReader:
    """Reads the rows of one table.

    Attributes:
        table: The table.
        columns: The table's names of its columns, from `find_columns`.
        selection: Options.
        faults: The faults found so far.
    """

    table: Table
    columns: dict[str, str]
    selection: Selection
    faults: list[Fault] = field(default_factory=list)

    def read(self) -> list[Entry]:
        """The rows of the wanted sets that have no fault, each with an id of its own."""
        entries = {}
        audio_of: dict[str, Path] = {}
        for row in self.table.rows:
            entry = self._entry(row)
            if entry is None:
                continue
            first = entries.setdefault(entry.utterance, entry)
            if first is not entry:
                what = f"utterance {entry.utterance} is also in line {first.where}; remove one, or add a column id"
                self.faults.append(Fault(str(self.table.path), row.where, what))
            elif audio_of.setdefault(entry.recording, entry.audio) != entry.audio:
                what = f"would have the id {entry.recording} of {audio_of[entry.recording]} as well; rename a file"
                self._fault(row, "audio", what)
        return list(entries.values())

    def _entry(self, row: Row) -> Entry | None:
        """One row; None if it has a fault or is not wanted."""
        before = len(self.faults)
        name = self._set(row)
        if name is None:
            return None
        path = self._cell(row, "audio")
        audio = Path(os.path.normpath(self.table.path.parent / path))
        recording = self._recording(path, audio)
        start, end = self._times(row)
        translation = clean_text(self._text(row, "translation"))[0] if self.selection.task == "st" else ""
        conditions = self._conditions(row)
        scored = self.selection.transcripts == "scored"
        text = self._text(row, "text")
        transcript = for_wer(text, conditions.get("utt2lang", "")) if scored else clean_text(text)[0]
        entry = Entry(
            where=row.where,
            utterance=self._utterance(row, recording, start, end, conditions.get("utt2tgtlang")),
            recording=recording,
            audio=audio,
            speaker=self._speaker(row),
            set=name,
            transcript=transcript,
            translation=translation,
            start=start,
            end=end,
            conditions=conditions,
            dropped=self._missing(row, path, audio) or ("" if transcript else f"no words in transcript {text!r}"),
        )
        return entry if len(self.faults) == before else None

    def _fault(self, row: Row, column: str, what: str) -> None:
        value = row.values.get(self.columns[column])
        self.faults.append(Fault(str(self.table.path), row.where, f"{self.columns[column]} {value!r}: {what}"))

    def _cell(self, row: Row, column: str) -> str:
        """The value of a column, which is "" where the table does not have it."""
        value = row.values.get(self.columns.get(column, ""))
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._fault(row, column, "must be a string or a number")
            return ""
        text = str(value).strip()
        if _SURROGATE.search(text):
            self._fault(row, column, "has half of a surrogate pair; write the character itself")
        return text

    def _text(self, row: Row, column: str) -> str:
        text = self._cell(row, column)
        what = text_fault(clean_text(text)[0])
        if what:
            self._fault(row, column, what)
        return text

    def _set(self, row: Row) -> str | None:
        """The set of a row, "" where the table names none; None if it is not wanted or unknown."""
        if "split" not in self.columns:
            return ""
        split = self._cell(row, "split")
        name = set_of(split, self.selection)
        if name is None and not self.selection.sets:
            known = ", ".join(split for names in SPLITS.values() for split in names)
            todo = "name it with --set_names train=NAME, or leave it out with --sets train dev test"
            self._fault(row, "split", f"is no set; known are {known}: {todo}")
        return name if name in self.selection.wanted(SPLITS) else None

    def _missing(self, row: Row, path: str, audio: Path) -> str:
        """What the row lacks, or ""; also adds a fault unless such rows are dropped."""
        needed = ["text", "translation"] if self.selection.task == "st" else ["text"]
        lacking = {"audio": ""} if not path else {}
        lacking |= {column: "" for column in needed if not self._cell(row, column)}
        if path and not audio.is_file():
            lacking["audio"] = f"{audio} does not exist; get it"
        if self.selection.on_missing == "error":
            for column, what in lacking.items():
                self._fault(row, column, f"{what or 'is empty; write it'}, {TODO}")
        return "; ".join(f"{self.columns[column]} {what or 'is empty'}" for column, what in lacking.items())

    def _times(self, row: Row) -> tuple[float | None, float | None]:
        start, end = self._seconds(row, "start"), self._seconds(row, "end")
        if end is not None and end <= (start or 0.0):
            self._fault(row, "end", f"must be after the start at {start or 0:g} s")
        return start, end

    def _seconds(self, row: Row, column: str) -> float | None:
        given = self._cell(row, column)
        if not given:
            return None
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            self._fault(row, column, "must be seconds, from 0, with a point as in 2.5")
            return None
        return seconds

    def _conditions(self, row: Row) -> dict[str, str]:
        """Values by table; the target language belongs to translations only."""
        values = {}
        for column, table in _TABLES.items():
            if column in self.columns and (column != "target_language" or self.selection.task == "st"):
                values[table] = self._cell(row, column)
                what = id_fault(values[table]) if values[table] else "is empty; write it in every row, or in none"
                if what:
                    self._fault(row, column, what)
        return values

    def _speaker(self, row: Row) -> str:
        return safe_name(self._cell(row, "speaker"))

    def _recording(self, path: str, audio: Path) -> str:
        """Id of an audio file: its path from the table, without what leads out of the folder and without suffix."""
        if not path:
            return ""
        parts = Path(os.path.relpath(audio.with_suffix(""), self.table.path.parent)).parts
        return "-".join(safe_name(part) for part in parts if part != "..")

    def _utterance(self, row: Row, recording: str, start: float | None, end: float | None, target: str | None) -> str:
        """The id that the row gives, or one of the recording, the times and the target language."""
        given = self._cell(row, "id")
        times = [f"{round(1000 * t):07d}" if t is not None else "end" for t in (start or 0.0, end)]
        times = [] if start is end is None else times
        made = "-".join([recording or f"row{row.where}", *times, *filter(None, [target])])
        what = id_fault(given or made)
        if what:
            self._fault(row, "id" if given else "audio", what)
        return given or made
