"""The tables of a Kaldi data directory, one entry a line: an id, a space, a value.

A file whose name ends in .trn has lines in sclite's form, "value (id)", in any order.

Repairs that need no guess (line ends, order, spaces, composition) are made in memory, with one notice for each file;
everything else is a fault with file and line. Commands (wav.scp entries with a pipe) are never run.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from math import inf, isnan, nan
from pathlib import Path

from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.suffixes import SUFFIXES
from espnet_diverse.data.characters import clean_text, id_fault, text_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import write_parts
from espnet_diverse.data.lines import numbered_lines, placed_lines
from espnet_diverse.data.packed_table import PackedTable, Rows
from espnet_diverse.data.table_views import items_in_order
from espnet_diverse.errors import DataError, abridged
from espnet_diverse.option_checks import similar_path

COLUMNS = {
    "wav.scp": "recording path",
    "feats.scp": "utterance entry-of-an-ark",
    "text": "utterance transcript",
    "utt2spk": "utterance speaker",
    "segments": "utterance recording start end [channel]",
    "utt2lang": "utterance language",
    "utt2tgtlang": "utterance language",
    "utt2domain": "utterance domain",
    "src_text": "utterance transcript",
}
LINES = "lines"
"""Kind of a file with one text a line and no ids; the id of a text is the number of its line."""
EMPTY_TRANSCRIPT = "empty transcript; add the text or remove the utterance"
_TEXTS = ("text", "src_text")
_SETTLED = 2.0  # seconds after its last change, after which a file is only read again if it changes
_ALTERNATIVES = re.compile(r"\{[^{}/]*/[^{}]*\}")
# Paths and commands: a sentence may end in "|" too, which some Hindi texts write for the danda.
_OF_AUDIO = re.compile(rf"\S+(?:{'|'.join(map(re.escape, SUFFIXES))}|\.ark:\d+)|[ -~]*[-/.][ -~]*\|", re.IGNORECASE)
_SEEN = 100  # rows that show what a table holds
_TRN = re.compile(r"(.*)\(([^\s()]+)\)\s*")
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

log = logging.getLogger(__name__)


def data_dir_fault(path: Path) -> str | None:
    """The fault of a path that is no data directory, with the remedy; None if it may be one."""
    if not path.exists():
        near = similar_path(path)
        todo = f"did you mean {near}?" if near else "correct the path, or make it with espnet-diverse prepare"
        return f"there is no such directory; {todo}"
    if not path.is_dir():
        return "is a file, and a directory is needed; give a data directory"
    inner = [] if _has_table(path) else sorted(filter(_has_table, path.iterdir()))
    if not inner:
        return None
    return f"has no tables, but has {abridged(folder.name for folder in inner)}; give one of them, such as {inner[-1]}"


def _has_table(path: Path) -> bool:
    return any((path / name).is_file() for name in COLUMNS)


def read_table(path: Path, kind: str | None = None) -> dict[str, str]:
    """Read one table, with repairs.

    Args:
        path: The file.
        kind: A table in `COLUMNS`; by default the name of the file. Other names accept any value after the id.

    Raises:
        DataError: The table is faulty; the message names file and line.
    """
    return dict(pack_table(path, kind).items())


def scan_table(path: Path, kind: str | None = None) -> tuple[dict[str, str], list[Fault]]:
    """Read one table; return it sorted, and its faults. Faulty entries are included, so that ids can be compared."""
    table, faults = scan_packed(path, kind)
    return dict(table.items()), faults


def pack_table(path: Path, kind: str | None = None) -> PackedTable:
    """Read one table as `read_table` does, without an object for each row.

    Raises:
        DataError: The table is faulty; the message names file and line.
    """
    table, faults = scan_packed(path, kind)
    refuse(faults)
    return table


def pack_texts(path: Path, kind: str = "text") -> PackedTable:
    """Read a table of texts as `pack_table` does.

    Raises:
        DataError: The table is faulty, or a table of something else, such as a wav.scp.
    """
    table = pack_table(path, kind)
    named = path.name in COLUMNS and path.name not in _TEXTS
    if named or table and kind != LINES and all(map(_OF_AUDIO.fullmatch, islice(table.values(), _SEEN))):
        key, value = table.pair(0)
        content = f"{COLUMNS[path.name]} a line" if named else "a recording a line"
        raise DataError(f"{path}: has {content}, such as '{key} {value:.100}', and no texts; give a file named text")
    return table


def scan_packed(path: Path, kind: str | None = None) -> tuple[PackedTable, list[Fault]]:
    """Read one table as `scan_table` does, without an object for each row.

    A command reads a table several times. A table that is unchanged since it was read is not read again, unless it was
    changed a moment ago: the clock of a file system may miss a second change.
    """
    kind = kind or path.name
    try:
        status = path.stat()
    except OSError:
        return _scan(path, kind)
    if time.time() - max(status.st_mtime, status.st_ctime) < _SETTLED:
        return _scan(path, kind)
    changed = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    table, faults = _scan_once(path.absolute(), path, kind, changed)
    return table, list(faults)


@lru_cache(8)
def _scan_once(place: Path, path: Path, kind: str, changed: tuple[int, ...]) -> tuple[PackedTable, list[Fault]]:
    """`_scan` of a file that was last changed at this time; `path` is its name in messages."""
    return _scan(path, kind)


def _scan(path: Path, kind: str) -> tuple[PackedTable, list[Fault]]:
    faults: list[Fault] = []
    repairs: Counter[str] = Counter()
    rows = Rows(path)
    of_rows: list[tuple[int, Fault]] = []
    is_trn = path.name.removesuffix(".gz").endswith(".trn")
    read = _plain_lines if kind == LINES else _trn_lines if is_trn else placed_lines
    for number, line, start, size in read(path, faults, repairs):
        fields = line.split(None, 1)
        key, value = _repair(line, fields, kind, repairs) if fields else ("", "")
        if not key:
            if value:
                reason = f"has no id before {value!r}; begin the line with an id"
                faults.append(Fault(str(path), number, reason, entry=f"{path.name}-line{number}"))
            else:
                repairs["blank line"] += 1
            continue
        if faults and faults[-1].where == number:  # of the bytes of this line
            faults[-1] = replace(faults[-1], entry=key)
        rows.add(number, key, f"{key} {value}" if value else key, line, start, size)
        if reasons := entry_faults(kind, key, value):
            of_rows += [(len(rows) - 1, Fault(str(path), number, reason, entry=key)) for reason in reasons]
    table, twice, sorted_before = rows.packed(not repairs)
    for number, key, first in twice.values():
        reason = f"duplicate id {key!r}, first on line {first}; ids must be unique"
        faults.append(Fault(str(path), number, reason, entry=f"{key}-line{number}"))  # the first row stays
    faults += [fault for row, fault in of_rows if row not in twice]
    faults.sort(key=lambda fault: inf if fault.where is None else fault.where)  # of the whole file last
    if not sorted_before and not is_trn:
        repairs["unsorted table"] += 1
    notice_repairs(path, repairs)
    if not table and not faults:
        faults.append(Fault(str(path), None, "is empty"))
    return table, faults


def _trn_lines(path: Path, faults: list[Fault], repairs: Counter[str]) -> Iterator[tuple[int, str, int, int]]:
    """The lines of a .trn in the order of a table, "id text", as from `placed_lines`; comments are left out."""
    for number, line, _, _ in placed_lines(path, faults, repairs):
        if line.startswith(";;"):
            continue
        match = _TRN.fullmatch(line)
        if line.strip() and not match:
            reason = "does not end in an id; a line of a .trn is 'text (id)', the id without spaces and brackets"
            faults.append(Fault(str(path), number, reason))
        elif match and (either := _ALTERNATIVES.search(match[1])):
            reason = f"has the alternatives {either[0]!r}; only sclite scores these: write one of them"
            faults.append(Fault(str(path), number, reason))
        else:
            yield number, f"{match[2]} {match[1]}" if match else "", -1, 0


def _plain_lines(path: Path, faults: list[Fault], repairs: Counter[str]) -> Iterator[tuple[int, str, int, int]]:
    """The lines of a file of `LINES` with their numbers as ids, as from `placed_lines`; empty ones are kept."""
    for number, line in numbered_lines(path, faults, repairs):
        yield number, f"{number:09d} {line}".rstrip(), -1, 0


def scan_lines(path: Path, form: Callable[[str], str] = str) -> tuple[list[str], list[Fault]]:
    """Read one text a line, with repairs. Empty lines are kept, because other files may be parallel.

    Args:
        path: The file.
        form: Returns the text that a line stands for, which is then repaired and checked.
    """
    faults: list[Fault] = []
    repairs: Counter[str] = Counter()
    texts = []
    for number, line in numbered_lines(path, faults, repairs):
        text, repair_names = clean_text(form(line))
        repairs.update(repair_names)
        reason = text_fault(text)
        faults += [Fault(str(path), number, reason)] if reason else []
        texts.append(text)
    notice_repairs(path, repairs)
    return texts, faults


def notice_repairs(path: Path, repairs: Counter[str]) -> None:
    """Log the repairs of a file by kind, if there are any."""
    if repairs:
        listed = ", ".join(f"{reason} ({count})" for reason, count in repairs.items())
        _tell_once(f"notice: {path}: repaired while reading: {listed}", path.stat().st_mtime_ns)


@lru_cache(1000)  # a command reads a table several times
def _tell_once(notice: str, changed: int) -> None:
    """Log a notice about a file that was last changed at this time."""
    log.warning("%s", notice)


def _repair(line: str, fields: list[str], kind: str, repairs: Counter[str]) -> tuple[str, str]:
    """Repair id and value of one line; a path is not repaired, because it must equal the name on disk."""
    if kind.endswith(".scp"):
        key, repair_names = clean_text(fields[0])
        if "\t" in line[: len(line) - len(fields[-1])]:
            repair_names.append("tab")
        value = fields[1].strip(" \t") if len(fields) > 1 else ""
    else:
        cleaned, repair_names = clean_text(line)
        key, _, value = cleaned.partition(" ")
    if repair_names:
        repairs.update(repair_names)
    return key, value


def entry_faults(kind: str, key: str, value: str) -> list[str]:
    """Return the faults of one entry of the table `kind`, whose text is already repaired."""
    reasons = [reason for reason in [id_fault(key)] if reason]
    if not value and kind in _TEXTS:
        reasons.append(EMPTY_TRANSCRIPT)
    elif kind in COLUMNS and kind not in _TEXTS and not value:
        reasons.append(f"missing columns: the line is only {key!r}; the format is: {COLUMNS[kind]}")
    elif kind in _VALUE_FAULTS:
        reason = _VALUE_FAULTS[kind](value)
        reasons += [reason] if reason else []
    return reasons


def _path_fault(path: str) -> str | None:
    if "|" in path:
        todo = "give the path of a file, or let espnet-diverse prepare kaldi --allow_pipes write the files"
        return f"{path!r} contains a pipe; commands are not run: {todo}"
    if _UNWRITABLE.search(path):
        return f"path {path!r} contains control characters or bytes that are not utf-8; rename the file"
    return None


def _name_fault(value: str) -> str | None:
    if " " in value:
        return f"has {value.count(' ') + 2} columns, and 2 are allowed (an utterance and one name without spaces)"
    return id_fault(value)


def parse_segment(value: str) -> Segment:
    """Read "recording start end [channel]" (seconds); times are NaN where the columns or numbers are wrong.

    An end of -1 means the end of the recording, and becomes infinity.
    """
    fields = value.split()
    wrong = Segment(fields[0] if fields else "", nan, nan)
    try:
        start, end = float(fields[1]), float(fields[2])
    except (IndexError, ValueError):
        return wrong
    if fields[4:] or fields[3:] and not re.fullmatch("[0-9]{1,3}", fields[3]) or end == inf:
        return wrong
    return Segment(fields[0], start, inf if end == -1 else end, int(fields[3]) if fields[3:] else None)


def _segment_fault(value: str) -> str | None:
    segment = parse_segment(value)
    if not 0 <= segment.start < inf or isnan(segment.end):
        form = f"{COLUMNS['segments']} (seconds, from 0; an end of -1 means the end of the recording)"
        return f"segment {value!r} is invalid; the format is: {form}"
    if segment.end <= segment.start:
        return f"segment ends at {segment.end} s, not after its start at {segment.start} s"
    return id_fault(segment.recording)


_VALUE_FAULTS = {
    "wav.scp": _path_fault,
    "feats.scp": _path_fault,
    "text": text_fault,
    "utt2spk": _name_fault,
    "utt2lang": _name_fault,
    "utt2tgtlang": _name_fault,
    "utt2domain": _name_fault,
    "src_text": text_fault,
    "segments": _segment_fault,
}


def write_table(path: Path, table: Mapping[str, str]) -> None:
    """Write one table atomically, sorted by id in byte order; tables other than dicts must be sorted."""
    write_parts(path, (f"{key} {value}\n" for key, value in items_in_order(table)))
