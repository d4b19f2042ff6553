"""The user's own recordings, listed in a table: csv, tsv or jsonl, one recording or part of one a row.

    audio,text,speaker,start,end
    day1/morning.wav,Good morning.,anna,0.5,2.25

Columns are audio (relative to the table) and text, and optionally id, speaker, language, target_language, translation,
domain, start and end (or duration) in seconds, and split; `shared/columns.py` lists their other names, and
`selection.columns` names columns with different names. Manifests of NeMo, with offset and duration, are tables, and so
is metadata.csv of LJSpeech (`shared/headerless.py`). Audio may have any format and rate that the package reads.

A column split names the set of each row: train, dev (or valid, validation, val) or test; `selection.set_names` gives
other names. Without it, the sets are drawn so that no speaker and no recording is in two sets; without speakers, each
recording counts as one. If only some sets are wanted, they are drawn from all rows, or rows of other sets are left out.

Ids of utterances come from the column id, or else are the path of the audio without its suffix, followed by start and
end in milliseconds and, for translation, the target language, where the table has them.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from espnet_diverse.audio.reading import inspect_audio, open_file
from espnet_diverse.audio.segments import Segment
from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.columns import find_columns
from espnet_diverse.corpora.shared.headerless import with_names
from espnet_diverse.corpora.shared.splits import SETS, connected, draw_sets
from espnet_diverse.corpora.shared.table_files import Table, read_table_file
from espnet_diverse.corpora.shared.table_rows import Entry, RowReader
from espnet_diverse.data.characters import safe_name
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.threads import iterate_in_threads
from espnet_diverse.errors import DataError, abridged

OPTIONS = ("task", "transcripts", "audio_dir", "columns", "split_by", "split_shares", "split_seed")
NO_DOWNLOAD = "a table has no download; give its file: prepare table FILE, or run.sh --corpus_dir FILE"

_THREADS = 4

log = logging.getLogger(__name__)


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read a table.

    Args:
        corpus_dir: The table.
        selection: Options. Faults of rows, such as no text, and of audio are errors unless `on_bad="drop"`. With
            `task="st"` the table has the column translation.

    Returns:
        The sets train, dev and test, or those selected.

    Raises:
        ConfigError: An option names a column that does not exist.
        DataError: The table is faulty (file, line, column and value are named), or a set has no rows.
    """
    path = corpus_dir.absolute()
    folder = path.parent if selection.audio_dir is None else selection.audio_dir.absolute()
    return read_sets(with_names(read_table_file(path), folder, dict(selection.columns).values()), selection)


def read_sets(table: Table, selection: Selection) -> dict[str, DataDir]:
    """The sets of a table whose rows are in memory; raises the same errors as `prepare`."""
    refuse([] if table.rows else table.faults)
    columns, faults = find_columns(table, selection)
    if faults:
        refuse(table.faults + faults)
    reader = RowReader(table, columns, selection)
    entries = reader.read()
    faults = table.faults + reader.faults
    if faults and selection.on_bad == "error":
        faults = [replace(fault, entry=f"row{fault.where}") for fault in faults]
        refuse(faults + _audio_faults(table, entries))
    if "split" in columns:
        of_entry = [entry.set for entry in entries]
        _notice_shared_speakers(table, entries)
    else:
        groups = connected([_keys(entry, selection) for entry in entries])
        drawn = draw_sets(groups, selection) if entries else {}
        of_entry = [drawn[group] for group in groups]
    sets = {}
    for name in selection.wanted(SETS):
        chosen = [entry for entry, its in zip(entries, of_entry, strict=True) if its == name]
        sets[name] = _data_dir(table, chosen, selection)
    first, left_out = next(iter(sets.values())), _left_out(table, faults)
    first.dropped.update(left_out)
    first.bad.update(left_out)
    for name, data in sets.items():
        if not data.text:
            reason = f"has no {'usable ' if data.dropped else ''}rows for the set {name}"
            usable = " ".join(other for other in sets if sets[other].text)
            todo = f", or prepare only the others with --sets {usable}" if usable else ""
            raise DataError(f"{table.path}: {reason}; add some{todo}")
    return sets


def _speaker(entry: Entry) -> str:
    return entry.speaker or entry.recording or entry.utterance


def _keys(entry: Entry, selection: Selection) -> list[str]:
    """Keys that entries of different sets must not share."""
    keys = [f"audio {entry.recording or entry.utterance}"]
    return keys if selection.split_by == "audio" else [*keys, f"speaker {_speaker(entry)}"]


def _notice_shared_speakers(table: Table, entries: Iterable[Entry]) -> None:
    """Log which speakers are in several of the sets that the table names."""
    sets: dict[str, set[str]] = {}
    for entry in entries:
        sets.setdefault(_speaker(entry), set()).add(entry.set)
    shared = sorted(speaker for speaker, names in sets.items() if len(names) > 1)
    if shared:
        log.warning("notice: %s: speakers in several sets: %s", table.path, abridged(shared))


def _left_out(table: Table, faults: Iterable[Fault]) -> dict[str, str]:
    """Rows with faults, named by their lines, with the reasons; a warning gives their number."""
    rows: dict[str, list[str]] = {}
    for fault in faults:
        rows.setdefault(safe_name(f"row{fault.where}"), []).append(fault.what)
    if rows:
        log.warning("notice: %s: %d rows with faults are left out; dropped.tsv lists them", table.path, len(rows))
    return {row: "; ".join(reasons) for row, reasons in rows.items()}


def _audio_faults(table: Table, entries: Iterable[Entry]) -> list[Fault]:
    """Faults of the audio of rows without faults, so that one message has all faults of a table."""
    first: dict[Path, Entry] = {}
    for entry in entries:
        if not entry.dropped:
            first.setdefault(entry.audio, entry)
    reasons = iterate_in_threads(_audio_fault, first, _THREADS, "check audio", len(first))
    return [
        Fault(str(table.path), entry.where, reason, "audio", entry.utterance)
        for entry, reason in zip(first.values(), reasons, strict=True)
        if reason
    ]


def _audio_fault(path: Path) -> str:
    try:
        with open_file(path) as file:
            file.check_header()
            file.check()
    except DataError as error:
        return str(error)
    return ""


def _data_dir(table: Table, entries: Sequence[Entry], selection: Selection) -> DataDir:
    """One set; if any entry is a part of a recording, entries of whole recordings have segments, too."""
    dropped = {entry.utterance: entry.dropped for entry in entries if entry.dropped}
    data = DataDir(dropped=dropped, bad={entry.utterance for entry in entries if entry.is_bad})
    remaining = [entry for entry in entries if not entry.dropped]
    segmented = any(entry.start is not None or entry.end is not None for entry in remaining)
    faults, translates = [], selection.task == "st"
    for entry in remaining:
        end, fault = _end(entry) if segmented else (0.0, "")
        if fault and selection.on_bad == "drop":
            data.dropped[entry.utterance] = fault
            data.bad.add(entry.utterance)
            continue
        if fault:
            faults.append(Fault(str(table.path), entry.where, fault, entry=entry.utterance))
        data.wav_scp[entry.recording if segmented else entry.utterance] = str(entry.audio)
        data.text[entry.utterance] = entry.translation if translates else entry.transcript
        data.utt2spk[entry.utterance] = _speaker(entry)
        if translates:
            data.src_text[entry.utterance] = entry.transcript
        for name, value in entry.conditions.items():
            data.conditions.setdefault(name, {})[entry.utterance] = value
        if segmented:
            data.segments[entry.utterance] = Segment(entry.recording, entry.start or 0.0, end)
    refuse(faults)
    return data


def _end(entry: Entry) -> tuple[float, str]:
    """The end of a part of a recording in seconds, and the reason why it cannot be used, or ""."""
    if entry.end is not None:
        return entry.end, ""
    try:
        end = inspect_audio(entry.audio).seconds
    except DataError as error:
        return 0.0, str(error)
    start = entry.start or 0.0
    return end, f"starts at {start:g} s, and {entry.audio} ends at {end:g} s" if end <= start else ""
