"""Reading and writing Kaldi data directories.

    wav.scp   recording path                  (a file, or an entry of an ark such as wav.1.ark:1234)
    text      utterance transcript
    utt2spk   utterance speaker               (optional; without it each utterance has its own speaker)
    segments  utterance recording start end   (optional, in seconds; without it each recording is an utterance; an end
                                               of -1 is the recording's end, and a fifth column names a channel)
    feats.scp utterance entry of an ark       (instead of wav.scp, for models that read features)
    src_text  utterance transcript            (optional, for speech translation: text is then the translation)
    utt2lang, utt2tgtlang, utt2domain         (optional: language of the speech or source, language of text, domain)

A directory of text alone, for translation or language models, has none of wav.scp, feats.scp and utt2spk: its sentences
are in `text`. For translation `src_text` has the source sentences, in the language that utt2lang gives.

Tables are utf-8, composed (NFC), sorted by id in byte order (`LC_ALL=C sort`), with unique ids. spk2utt is derived from
utt2spk when writing and never read.
"""

import logging
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from espnet_diverse.audio.segments import Segment
from espnet_diverse.conditions import TABLES
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.packed_table import Column, PackedTable
from espnet_diverse.data.table_views import Grouped, Mapped, Without, in_order, items_in_order, lacking
from espnet_diverse.data.tables import COLUMNS, data_dir_fault, parse_segment, scan_packed, write_table

SOURCES = ("wav.scp", "feats.scp")
"""Tables of the input of a model: audio or features."""
DROPPED = "utterance\treason\n"
"""First line of dropped.tsv."""
_OF_AUDIO = ("feats.scp", "cmvn.scp", "vad.scp", "utt2dur", "utt2num_frames", "utt2num_samples", "reco2dur")
_DERIVED = ("spk2utt", "dropped.tsv", "frame_shift", "reco2file_and_channel")

log = logging.getLogger(__name__)


@dataclass
class DataTables:
    """One set of a corpus, as read-only tables of a Kaldi data directory; tables other than dicts are sorted.

    Attributes:
        wav_scp: Path of each recording. Without segments each recording is an utterance.
        text: Transcript of each utterance.
        utt2spk: Speaker of each utterance.
        segments: The part of a recording for each utterance; empty if recordings are utterances.
        src_text: Transcript of each utterance if `text` has translations.
        conditions: The existing tables among utt2lang, utt2tgtlang and utt2domain, each with a value by utterance.
        dropped: Utterances that were dropped, with the reason; written as dropped.tsv.
        bad: Those of `dropped` that have a fault; the others were left out on purpose.
        extra: Other tables by file name, with a value by utterance or by speaker, such as spk2gender.
    """

    wav_scp: Mapping[str, str] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)
    utt2spk: Mapping[str, str] = field(default_factory=dict)
    segments: Mapping[str, Segment] = field(default_factory=dict)
    src_text: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    bad: Collection[str] = ()
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether this is a directory of text alone."""
        return bool(self.text) and not (self.wav_scp or self.segments or self.utt2spk)

    def by_utterance(self) -> Mapping[str, Any]:
        """The table whose ids are the utterances with audio, or the sentences of a directory of text alone."""
        return self.text if self.is_text else self.segments or self.wav_scp

    def required(self) -> tuple[str, ...]:
        """Names of the required tables."""
        return ("text",) if self.is_text else ("wav.scp", "text")

    def utterances(self) -> list[str]:
        """Sorted ids of the utterances with audio, or of the sentences of a directory of text alone."""
        return sorted(self.by_utterance())

    def speaker(self, utterance: str) -> str:
        """Speaker of an utterance; the utterance itself where there is no utt2spk."""
        return self.utt2spk.get(utterance, utterance)

    def spk2utt(self) -> Mapping[str, str]:
        """Sorted utterances of each speaker, separated by spaces."""
        rows = items_in_order(self.utt2spk)
        if Grouped.can_group(rows):
            return Grouped(rows)
        speakers: dict[str, list[str]] = {}
        for utterance, speaker in rows:
            speakers.setdefault(speaker, []).append(utterance)
        return {speaker: " ".join(utterances) for speaker, utterances in speakers.items()}

    def tables(self) -> dict[str, Mapping[str, str]]:
        """Each table by file name, as it is written; missing optional tables are empty."""
        return {
            "wav.scp": self.wav_scp,
            "text": self.text,
            "utt2spk": self.utt2spk,
            "segments": self._written_segments(),
            "src_text": self.src_text,
            **{name: self.conditions.get(name, {}) for name in TABLES},
            **self.extra,
        }

    def _written_segments(self) -> Mapping[str, str]:
        def written(segment: Segment) -> str:
            channel = "" if segment.channel is None else f" {segment.channel}"
            return f"{segment.recording} {segment.start} {-1 if segment.end == inf else segment.end}{channel}"

        if isinstance(self.segments, dict):
            return {utterance: written(segment) for utterance, segment in self.segments.items()}
        return Mapped(self.segments, written)


@dataclass
class DataDir(DataTables):
    """One set of a corpus in dicts, which may be changed and need not be sorted."""

    wav_scp: dict[str, str] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)
    utt2spk: dict[str, str] = field(default_factory=dict)
    segments: dict[str, Segment] = field(default_factory=dict)
    src_text: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, dict[str, str]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    extra: dict[str, dict[str, str]] = field(default_factory=dict)


def column(table: Mapping[str, Any], numbers: array) -> Mapping[str, float]:
    """A number for each id of a table of `DataTables`, in the order of its ids; NaN stands for none."""
    packed = table.table if isinstance(table, Mapped) else table
    if isinstance(packed, PackedTable):
        return Column(packed, np.array(numbers, np.float64))
    return {key: number for key, number in zip(in_order(table), numbers, strict=True) if not isnan(number)}


def keep_utterances(data: DataTables, utterances: Collection[str]) -> DataDir:
    """Return some utterances of a set, without recordings that have no utterance left. Dropped ones stay listed."""

    def of_kept(table: Mapping) -> dict:
        return {utterance: value for utterance, value in table.items() if utterance in utterances}

    segments = of_kept(data.segments)
    recordings = {segment.recording for segment in segments.values()} if data.segments else utterances
    return DataDir(
        wav_scp={recording: path for recording, path in data.wav_scp.items() if recording in recordings},
        text=of_kept(data.text),
        utt2spk=of_kept(data.utt2spk),
        segments=segments,
        src_text=of_kept(data.src_text),
        conditions={name: of_kept(table) for name, table in data.conditions.items()},
        dropped=dict(data.dropped),
        bad=set(data.bad),
        extra={
            name: {key: value for key, value in table.items() if key in utterances or key not in data.by_utterance()}
            for name, table in data.extra.items()
        },
    )


def leave_out(data: DataTables, reasons: Mapping[str, str]) -> DataTables:
    """Return the utterances of a set that are in all tables and not left out, and the recordings that they use.

    Args:
        data: The set, in which tables may lack utterances.
        reasons: Faults of utterances that are left out; the result lists them as dropped, too.
    """
    spoken = data.by_utterance()
    excluded = set(reasons)
    for table in (data.text, data.utt2spk, data.src_text, *data.conditions.values()):
        excluded.update(lacking(table, spoken) if table else ())

    def included(table: Mapping[str, Any]) -> Mapping[str, Any]:
        return Without(table, excluded.union(lacking(spoken, table)))

    segments = included(data.segments)
    used = {segment.recording for segment in segments.values()}
    unused = {recording for recording in data.wav_scp if recording not in used} if data.segments else excluded
    return DataTables(
        wav_scp=Without(data.wav_scp, unused),
        text=included(data.text),
        utt2spk=included(data.utt2spk),
        segments=segments,
        src_text=included(data.src_text),
        conditions={name: included(table) for name, table in data.conditions.items()},
        dropped={**reasons, **data.dropped},
        bad={*reasons, *data.bad},
        extra={name: Without(table, excluded) for name, table in data.extra.items()},
    )


def evenly_spaced(data: DataTables, count: int) -> DataTables:
    """Return `count` utterances of a set, evenly spaced in the order of their ids; all, if there are no more.

    Those that were dropped stay listed, but no longer as bad ones, because they are no part of this share of the set.
    """
    ids = data.utterances()
    return data if count >= len(ids) else replace(keep_utterances(data, set(spaced(ids, count))), bad=set())


def spaced[Item](items: Sequence[Item], count: int) -> list[Item]:
    """Return `count` items of a sequence, evenly spaced; all, if there are no more."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def source_of(path: Path) -> str:
    """The table of `SOURCES` that a data directory has; wav.scp if it has both or none."""
    has_features = (path / "feats.scp").is_file() and not (path / "wav.scp").is_file()
    return "feats.scp" if has_features else "wav.scp"


def scan_tables(path: Path, source: str = "wav.scp") -> tuple[DataTables, list[Fault]]:
    """Read a data directory without an object for each row; return it and the faults within each table.

    Args:
        path: The data directory.
        source: The table of `SOURCES` that is read. The entries of feats.scp are then in `wav_scp`, without segments.
    """
    if wrong := data_dir_fault(path):
        return DataTables(), [Fault(str(path), None, wrong)]
    tables: dict[str, Mapping[str, str]] = {}
    faults: list[Fault] = []
    is_spoken = any((path / name).exists() for name in (source, "utt2spk", "segments"))
    required = (source, "text") if is_spoken or not (path / "text").exists() else ("text",)
    unread = ("feats.scp",) if source == "wav.scp" else ("wav.scp", "segments")
    for name in [name for name in COLUMNS if name not in unread]:
        if name in required or (path / name).exists():
            tables[name], table_faults = scan_packed(path / name)
            faults += table_faults
    wav_scp, text, utt2spk, src_text = (tables.get(name, {}) for name in (source, "text", "utt2spk", "src_text"))
    conditions = {name: tables[name] for name in TABLES if name in tables}
    return DataTables(
        wav_scp, text, utt2spk, Mapped(tables.get("segments", {}), parse_segment), src_text, conditions
    ), faults


def scan_extra(path: Path, data: DataTables) -> dict[str, Mapping[str, str]]:
    """Read the other tables of a data directory that have a value for utterances or speakers, such as spk2gender.

    Tables that describe features or the length of the audio are left out, because the audio may change; so are files
    that are not tables of utterances or speakers, with a notice.

    Args:
        path: The data directory.
        data: Its tables, from `scan_tables`.
    """
    extra, skipped = {}, []
    ids = data.by_utterance, cache(data.spk2utt)
    for file in text_files(path):
        if file.name in (*COLUMNS, *_OF_AUDIO, *_DERIVED):
            continue
        table, faults = scan_packed(file)
        if not faults and any(sum(1 for _ in lacking(keys(), table)) < len(table) for keys in ids):
            extra[file.name] = table
        else:
            skipped.append(file.name)
    if skipped:
        log.warning("notice: %s: left out, as they are not tables of utterances: %s", path, " ".join(skipped))
    return extra


def text_files(path: Path) -> list[Path]:
    """The files of a folder that may be tables: not hidden, and not audio or arks, which hold bytes of 0."""

    def is_text(file: Path) -> bool:
        with file.open("rb") as start:
            return b"\0" not in start.read(4096)

    files = (file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith("."))
    return [file for file in files if is_text(file)]


def read_data_dir(path: Path) -> DataDir:
    """Read the tables of a data directory; `validate` also compares them and checks the audio.

    Raises:
        DataError: A table is faulty; the message names file and line.
    """
    data, faults = scan_tables(path)
    refuse(faults)
    tables = (dict(table.items()) for table in (data.wav_scp, data.text, data.utt2spk))
    conditions = {name: dict(table.items()) for name, table in data.conditions.items()}
    return DataDir(*tables, dict(data.segments.items()), dict(data.src_text.items()), conditions)


def write_data_dir(data: DataTables, path: Path, source: str = "wav.scp") -> None:
    """Write every table, spk2utt and, if utterances were dropped, dropped.tsv (utterance, reason).

    Args:
        data: The tables.
        path: The data directory.
        source: The table of `SOURCES` whose entries are in `data.wav_scp`.
    """
    path.mkdir(parents=True, exist_ok=True)
    tables = data.tables() | {"spk2utt": data.spk2utt()}
    for name, table in tables.items():
        file = path / (source if name == "wav.scp" else name)
        if table or name in data.required():
            write_table(file, table)
        else:
            file.unlink(missing_ok=True)
    if data.dropped:
        rows = "".join(f"{utterance}\t{reason}\n" for utterance, reason in sorted(data.dropped.items()))
        write_text(path / "dropped.tsv", DROPPED + rows)
    else:
        (path / "dropped.tsv").unlink(missing_ok=True)
