"""The tables of a Kaldi data directory, one entry a line: an id, a space, a value.

Repairs that need no guess (line ends, order, spaces, composition) are made in memory, with one notice for each file;
everything else is a fault with file and line. Commands (wav.scp entries with a pipe) are never run.
"""

import gzip
import logging
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import inf, nan
from pathlib import Path

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.characters import LONGEST_ID, clean_text, guess_encoding, id_fault, text_fault
from espnet_diverse.data.faults import Fault, refuse

COLUMNS = {
    "wav.scp": "recording path",
    "feats.scp": "utterance entry-of-an-ark",
    "text": "utterance transcript",
    "utt2spk": "utterance speaker",
    "segments": "utterance recording start end",
    "utt2lang": "utterance language",
    "utt2tgtlang": "utterance language",
    "utt2domain": "utterance domain",
    "src_text": "utterance transcript",
}
EMPTY_TRANSCRIPT = "empty transcript; add the text or remove the utterance"
_TEXTS = ("text", "src_text")
LONGEST_LINE = 1_000_000
"""Bytes of a line. A longer one is a file whose line ends are lost, and would take the tokenizer hours."""
_MOST_UNPACKED, _MOST_RATIO = 1 << 26, 50  # bytes of a .gz, and times its size in addition; text reaches about 20
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

log = logging.getLogger(__name__)


def read_table(path: Path, kind: str | None = None) -> dict[str, str]:
    """Read one table, with repairs.

    Args:
        path: The file.
        kind: A table in `COLUMNS`; by default the name of the file. Other names accept any value after the id.

    Raises:
        DataError: The table is faulty; the message names file and line.
    """
    table, faults = scan_table(path, kind)
    refuse(faults)
    return table


def scan_table(path: Path, kind: str | None = None) -> tuple[dict[str, str], list[Fault]]:
    """Read one table; return it sorted, and its faults. Faulty entries are included, so that ids can be compared."""
    kind = kind or path.name
    faults: list[Fault] = []
    repairs: Counter[str] = Counter()
    table: dict[str, str] = {}
    first_line: dict[str, int] = {}
    for number, line in numbered_lines(path, faults, repairs):
        fields = line.split(None, 1)
        if not fields:
            repairs["blank line"] += 1
            continue
        key, value = _repair(line, fields, kind, repairs)
        if key in table:
            what = f"duplicate id {key!r}, first on line {first_line[key]}; ids must be unique"
            faults.append(Fault(str(path), number, what))
            continue
        table[key] = value
        first_line[key] = number
        faults += [Fault(str(path), number, what) for what in entry_faults(kind, key, value)]
    ordered = dict(sorted(table.items()))
    if list(ordered) != list(table):
        repairs["unsorted table"] += 1
    _notice(path, repairs)
    if not table and not faults:
        faults.append(Fault(str(path), None, "is empty"))
    return ordered, faults


def scan_lines(path: Path) -> tuple[list[str], list[Fault]]:
    """Read one text a line, with repairs. Empty lines are kept, for other files may be parallel."""
    faults: list[Fault] = []
    repairs: Counter[str] = Counter()
    texts = []
    for number, line in numbered_lines(path, faults, repairs):
        text, found = clean_text(line)
        repairs.update(found)
        what = text_fault(text)
        faults += [Fault(str(path), number, what)] if what else []
        texts.append(text)
    _notice(path, repairs)
    return texts, faults


def _notice(path: Path, repairs: Counter[str]) -> None:
    if repairs:
        listed = ", ".join(f"{what} ({count})" for what, count in repairs.items())
        _tell_once(f"notice: {path}: repaired while reading: {listed}", path.stat().st_mtime_ns)


@lru_cache(1000)  # a command reads a table several times
def _tell_once(notice: str, changed: int) -> None:
    """Log a notice about a file that was last changed at this time."""
    log.warning("%s", notice)


def numbered_lines(
    path: Path, faults: list[Fault], repairs: Counter[str], pipe: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, decoded line); bytes that are not utf-8 become one or two faults for the file.

    With `pipe` the file may be one, such as standard input; otherwise it must be a regular file.
    """
    try:
        raw = _content(path, pipe)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        faults.append(Fault(str(path), None, f"cannot be read ({reason})"))
        return
    if guess_encoding(raw[:4096]) == "UTF-16":
        faults.append(Fault(str(path), None, "is UTF-16 from byte offset 0; allowed is utf-8: convert it with iconv"))
        return
    if raw.startswith(b"\xef\xbb\xbf"):
        repairs["byte order mark"] += 1
    if raw and not raw.endswith(b"\n"):
        repairs["missing final newline"] += 1
    offset, undecodable = 0, 0
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else [], start=1):
        if len(line) > LONGEST_LINE:
            what = f"has {len(line)} bytes; at most {LONGEST_LINE} are allowed: are line ends missing?"
            faults.append(Fault(str(path), number, what))
            offset += len(line) + 1
            first = line[:LONGEST_ID].decode("utf-8", "ignore").split(None, 1)[:1]
            yield number, f"{''.join(first)} \ufffd"  # with the id, so that it is not missing too
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            undecodable += 1
            if undecodable == 1:
                faults.append(_encoding_fault(path, number, offset + error.start, line))
            # The id is nearly always ASCII: keep it, so that the utterance is not also reported as missing.
            text = line.decode("utf-8", "replace")
        if text.endswith("\r"):
            repairs["CRLF line end"] += 1
            text = text.removesuffix("\r")
        yield number, text
        offset += len(line) + 1
    if undecodable > 1:
        faults.append(Fault(str(path), None, f"{undecodable - 1} more lines are not utf-8"))


def _content(path: Path, pipe: bool = False) -> bytes:
    """The bytes of a file, unpacked if it is a .gz; OSError for a device, and for one that unpacks to far more."""
    if path.exists() and not (path.is_file() or path.is_dir() or pipe and path.is_fifo()):
        raise OSError("not a regular file")
    if path.suffix != ".gz":
        return path.read_bytes()
    most = _MOST_UNPACKED + _MOST_RATIO * path.stat().st_size
    with gzip.open(path) as packed:
        raw = packed.read(most + 1)
    if len(raw) > most:
        raise OSError(f"unpacks to more than {most} bytes")
    return raw


def _encoding_fault(path: Path, number: int, offset: int, line: bytes) -> Fault:
    guess = guess_encoding(line)
    seems = f"it decodes as {guess}" if guess else "its encoding is unknown"
    return Fault(str(path), number, f"not utf-8 at byte offset {offset} ({seems}); convert the file with iconv")


def _repair(line: str, fields: list[str], kind: str, repairs: Counter[str]) -> tuple[str, str]:
    """Repair id and value of one line; a path is not repaired, for it must equal the name on disk."""
    if kind.endswith(".scp"):
        key, found = clean_text(fields[0])
        if "\t" in line[: len(line) - len(fields[-1])]:
            found.append("tab")
        value = fields[1].strip(" \t") if len(fields) > 1 else ""
    else:
        cleaned, found = clean_text(line)
        key, _, value = cleaned.partition(" ")
    repairs.update(found)
    return key, value


def entry_faults(kind: str, key: str, value: str) -> list[str]:
    """Return the faults of one entry of the table `kind`, whose text is already repaired."""
    whats = [what for what in [id_fault(key)] if what]
    if not value and kind in _TEXTS:
        whats.append(EMPTY_TRANSCRIPT)
    elif kind in COLUMNS and kind not in _TEXTS and not value:
        whats.append(f"missing columns: the line is only {key!r}; the format is: {COLUMNS[kind]}")
    elif kind in _VALUE_FAULTS:
        what = _VALUE_FAULTS[kind](value)
        whats += [what] if what else []
    return whats


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
    """Read "recording start end" (seconds); times are NaN where the columns or numbers are wrong."""
    fields = value.split()
    try:
        recording, start, end = fields[0], float(fields[1]), float(fields[2])
    except (IndexError, ValueError):
        return Segment(fields[0] if fields else "", nan, nan)
    return Segment(recording, start, end) if len(fields) == 3 else Segment(recording, nan, nan)


def _segment_fault(value: str) -> str | None:
    segment = parse_segment(value)
    if not 0 <= segment.start < inf or not segment.end < inf:
        return f"segment {value!r} is invalid; the format is: {COLUMNS['segments']} (seconds, from 0)"
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
    """Write one table atomically, sorted by id in byte order."""
    write_text(path, "".join(f"{key} {value}\n" for key, value in sorted(table.items())))
