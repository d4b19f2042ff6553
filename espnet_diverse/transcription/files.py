"""Which recordings a user means: files, folders, standard input, or a list with their languages and domains.

Outputs are called after their recordings, without the suffix. Where several would share a name (upper and lower case
are one, as on some file systems), they keep the suffix, a.wav and a.mp3, and where that does not help they are numbered
in their order, a.wav-2. A name depends on what was asked for, not on what could be read.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.sources import STDIN
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.tables import numbered_lines, read_table
from espnet_diverse.errors import DataError
from espnet_diverse.training.condition_names import condition_table

_SOUND = "wav flac mp3 ogg oga opus sph aif aiff au caf w64 rf64"
_MEDIA = "m4a mp4 mov 3gp webm mkv mka aac wma amr"
SUFFIXES = frozenset(f".{name}" for name in f"{_SOUND} {_MEDIA}".split())
COLUMNS = {"path": "path", "language": "lang", "target_language": "tgtlang", "domain": "domain"}
"""Columns of a list, and the condition of conditions that they name."""
_LONGEST_NAME = 200  # bytes; file systems allow 255, of which suffixes need some
_TAKEN = "failures"  # failures.json is no transcript


class Recording(NamedTuple):
    """A recording to be transcribed.

    Attributes:
        path: Of its file; "-" is standard input.
        name: What its outputs are called, without their suffix; no two recordings of `find_recordings` share one.
        conditions: Name by condition of what the list says of it.
    """

    path: str
    name: str
    conditions: Mapping[str, str]


def find_recordings(sources: Sequence[str], listed: Path | None = None) -> list[Recording]:
    """The recordings that a user names, in the order named; one that is named twice alike is taken once.

    Args:
        sources: Files, whatever their suffix; folders, of which all files with a suffix of audio are taken, also those
            of the folders in them, except hidden ones; "-" for standard input. A folder without stands for itself.
        listed: A list of recordings: a Kaldi wav.scp, whose neighbours utt2lang, utt2tgtlang and utt2domain are read
            too; or lines of path, language and domain parted by tabs, of which the last ones may be left out. A first
            line that begins with `path` names the columns, some of `COLUMNS`; others are passed over. Relative paths
            are those from the folder of the list, in a wav.scp those from the current one.

    Raises:
        DataError: Nothing is named, or the list is wrong.
    """
    found = [one for source in sources for one in _of_source(source)]
    if listed is not None:
        found += _of_scp(listed) if listed.suffix == ".scp" else _of_table(listed)
    if not found:
        raise DataError("no recording is named; give files, folders, - for standard input, or --list")
    once: dict[tuple, Recording] = {}
    for one in found:
        once.setdefault((_real(one.path), *sorted(one.conditions.items())), one)
    return _named(list(once.values()))


def readable(text: str) -> str:
    """`text` with a mark for what cannot be shown: file names may hold line ends and bytes that are no utf-8."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _of_source(source: str) -> Iterator[Recording]:
    if source == STDIN:
        yield Recording(source, "stdin", {})
    elif _is_folder(Path(source)):
        paths = sorted(_audio_files(Path(source)))
        # A folder without audio is one bad recording, which costs no other.
        yield from (Recording(str(path), path.name, {}) for path in paths or [Path(source)])
    else:
        yield Recording(source, Path(source).name, {})


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as a name that is too long; opening it as a file says so
        return False


def _audio_files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        for name in names:
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield Path(root, name)


def _of_scp(table: Path) -> list[Recording]:
    folder = table.parent
    if (folder / "segments").exists():
        raise DataError(f"{folder}: has segments; cut them with espnet-diverse prepare, or take the file away")
    by_axis = {condition: condition_table(folder, condition) for condition in COLUMNS.values() if condition != "path"}
    names = {condition: read_table(path) for condition, path in by_axis.items() if path.exists()}
    # The suffix, which ids do not have, is taken off again when names are made.
    return [
        Recording(
            path,
            f"{utterance}.wav",
            {condition: table[utterance] for condition, table in names.items() if utterance in table},
        )
        for utterance, path in read_table(table, "wav.scp").items()
    ]


def _of_table(table: Path) -> list[Recording]:
    faults: list[Fault] = []
    rows = [(n, line.split("\t")) for n, line in numbered_lines(table, faults, Counter()) if line.strip()]
    columns: Sequence[str] = ("path", "language", "domain")
    if rows and rows[0][1][0] == "path":
        columns = rows.pop(0)[1]
    found = []
    for number, fields in rows:
        if len(fields) > len(columns):
            what = f"has {len(fields)} columns, and {len(columns)} are allowed, parted by tabs: {' '.join(columns)}"
            faults.append(Fault(str(table), number, what))
        elif not fields[0].strip():
            faults.append(Fault(str(table), number, "names no path; a line begins with one"))
        values = {COLUMNS[name]: value.strip() for name, value in zip(columns, fields, strict=False) if name in COLUMNS}
        path = table.parent / values.pop("path", "")
        found.append(
            Recording(str(path), path.name, {condition: value for condition, value in values.items() if value})
        )
    refuse(faults)
    return found


def _real(path: str) -> str:
    return path if path == STDIN or "\0" in path else os.path.realpath(path)


def _named(found: Sequence[Recording]) -> list[Recording]:
    stems = [_short(Path(one.name).stem) for one in found]
    shared = Counter(stem.casefold() for stem in stems)
    taken, recordings = {_TAKEN}, []
    for one, stem in zip(found, stems, strict=True):
        clear = shared[stem.casefold()] == 1 and stem.casefold() != _TAKEN
        base = name = stem if clear else _short(one.name)
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.casefold())
        recordings.append(one._replace(name=name))
    return recordings


def _short(name: str) -> str:
    return readable(name).encode()[:_LONGEST_NAME].decode("utf-8", "ignore")
