"""The recordings that a user names: files, folders, standard input, or a list with languages and domains.

Outputs have the names of their recordings without the suffix. If several would have the same name (ignoring case, as
some file systems do), they keep the suffix: a.wav and a.mp3. Names that are still equal begin with the folders that
distinguish them, anna-a.wav and ben-a.wav, or are numbered in order if folders do not: a.wav-2. A name depends on the
recordings that the user named, not on whether they could be read.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.libsndfile import Powers
from espnet_diverse.audio.reading import is_recording, open_file
from espnet_diverse.audio.sources import STDIN
from espnet_diverse.audio.suffixes import OTHER, SHARED, SUFFIXES
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.corpora.shared.columns import COLUMNS as TABLE_COLUMNS
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines
from espnet_diverse.data.rttm import Turn, read_turns
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import DataError, abridged
from espnet_diverse.runs.condition_names import condition_table

COLUMNS = dict.fromkeys(("audio", *TABLE_COLUMNS["audio"]), "path") | {
    column: name
    for name, condition in CONDITIONS.items()
    for column in (name, condition.argument, *TABLE_COLUMNS[condition.argument])
}
"""Columns of a list, and "path" or the condition that each gives; other names are the same as in `prepare table`."""
_HEADERS = {*COLUMNS, *TABLE_COLUMNS, *(name for names in TABLE_COLUMNS.values() for name in names)}
_MAX_NAME_BYTES = 200  # file systems allow 255, and suffixes need some of them
_RESERVED_NAME = "failures"  # failures.json is no transcript

log = logging.getLogger(__name__)


class Recording(NamedTuple):
    """A recording to be transcribed.

    Attributes:
        path: Path of its file; "-" is standard input.
        name: Name of its outputs, without their suffix; unique among the recordings of `find_recordings`.
        conditions: Values by condition that the list gives.
        channel: Number of the channel of its file, from 0; None for the mean of all.
    """

    path: str
    name: str
    conditions: Mapping[str, str]
    channel: int | None = None

    @property
    def shown(self) -> str:
        """Its path, and its channel, for messages."""
        return printable(self.path) + ("" if self.channel is None else f" channel {self.channel}")

    def channels_cancel(self) -> bool:
        """Return whether its file has channels whose mean is nearly silent; False if it cannot be read again."""
        with suppress(DataError):
            if self.path != STDIN and self.channel is None:
                powers = Powers()
                with open_file(Path(self.path)) as file:
                    for _ in file.blocks(powers=powers) if file.info.channels > 1 else ():
                        pass  # the blocks are not needed
                return powers.cancel
        return False


def find_recordings(sources: Sequence[str], listed: Path | None = None, each_channel: bool = False) -> list[Recording]:
    """List the recordings that a user names, in the order named; a recording that is named twice is listed once.

    Args:
        sources: Files with any suffix; folders, for all files in them and their subfolders that have an audio suffix
            and are not hidden; "-" for standard input. A folder without audio is kept, to be reported as an error.
        listed: A list of recordings: a Kaldi wav.scp, with utt2lang, utt2tgtlang and utt2domain in its folder; or lines
            of path, language and domain separated by tabs, where the last columns may be omitted. A first line that
            begins with the name of a column, such as `path`, names all of them; a notice lists those not in `COLUMNS`.
            Relative paths are relative to the folder of the list; in a wav.scp, from standard input ("-") and from a
            pipe, to the current folder. Every id of a wav.scp is a separate recording, also where several have the same
            file.
        each_channel: Whether each channel of a file is a recording of its own.

    Raises:
        DataError: No recording is named, a source is empty, or the list is faulty.
    """
    recordings = [one for source in sources for one in _of_source(source)]
    with_ids: list[Recording] = []
    if listed is not None and listed.suffix == ".scp":
        with_ids = _of_scp(listed)
    elif listed is not None:
        recordings += _of_table(listed)
    if not recordings and not with_ids:
        raise DataError("no recording is named; give files, folders, - for standard input, or --list")
    once: dict[tuple[str | tuple[str, str], ...], Recording] = {}
    for one in recordings:
        once.setdefault((_real(one.path), *sorted(one.conditions.items())), one)
    files = list(once.values())
    if each_channel:
        files, with_ids = ([part for one in many for part in by_channel(one)] for many in (files, with_ids))
    return _named(files, with_ids)


def files_of(recordings: Sequence[Recording]) -> Iterator[Path]:
    """The paths of recordings that are files."""
    for one in recordings:
        with suppress(OSError, ValueError):  # such as a name that is too long; reported when it is opened
            if one.path != STDIN and Path(one.path).is_file():
                yield Path(one.path)


def turns_of(path: Path, recordings: Sequence[Recording]) -> dict[str, list[Turn]]:
    """Read speaker turns by name of recording, looked up by this name or the file's stem.

    A single recording takes any name. A recording without speech has no turns; a notice names such recordings, because
    their names may differ.

    Raises:
        DataError: The file is faulty, see `read_turns`, or has turns of no recording.
    """
    turns = read_turns(path)
    if len(recordings) == 1 == len(turns):
        return {recordings[0].name: next(iter(turns.values()))}
    by_name = {one.name: turns.get(one.name) or turns.get(Path(one.path).stem, []) for one in recordings}
    if lacking := [name for name, speaker_turns in by_name.items() if not speaker_turns]:
        has = f"{path}: has no turns of {abridged(lacking)}; it has turns of {abridged(turns)}"
        if len(lacking) == len(by_name):
            raise DataError(f"{has}: name recordings alike")
        log.warning("notice: %s; their texts have no speakers", has)
    return by_name


def printable(text: str) -> str:
    """Replace characters that cannot be printed: file names may contain line ends and bytes that are not utf-8."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _of_source(source: str) -> Iterator[Recording]:
    if not source:  # such as a variable of the shell that is not set; Path("") is the current folder
        raise DataError("a source is empty; give a file, a folder or -")
    if source == STDIN:
        yield Recording(source, "stdin", {})
    elif _is_folder(Path(source)):
        paths = _audio_files(Path(source))
        # A folder without audio is one failed recording.
        yield from (Recording(str(path), path.name, {}) for path in paths or [Path(source)])
    else:
        yield Recording(source, Path(source).name, {})


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as a name that is too long; reported when it is opened as a file
        return False


def _audio_files(folder: Path) -> list[Path]:
    """The recordings in a folder; a notice counts other files that are recordings by their suffix or content."""
    taken, passed = [], []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(root, name) for name in names if not name.startswith(".")):
            suffix = path.suffix.lower()
            if suffix in SUFFIXES or suffix in SHARED and is_recording(path):
                taken.append(path)
            elif suffix in OTHER or suffix not in SHARED and is_recording(path):
                passed.append(path)
    if passed:
        named = abridged([printable(str(path.relative_to(folder))) for path in sorted(passed)])
        reason = f"{len(passed)} files that may be recordings are passed over for their suffix"
        log.warning("notice: %s: %s: %s; name them, or rename or convert them", printable(str(folder)), reason, named)
    return sorted(taken)


def _of_scp(table: Path) -> list[Recording]:
    folder = table.parent
    if (folder / "segments").exists():
        raise DataError(
            f"{folder}: has segments; cut them with espnet-diverse prepare kaldi, or give the directory to decode"
        )
    paths = {condition: condition_table(folder, condition) for condition in CONDITIONS}
    names = {condition: read_table(path) for condition, path in paths.items() if path.exists()}
    return [
        Recording(
            path,
            utterance,
            {condition: table[utterance] for condition, table in names.items() if utterance in table},
        )
        for utterance, path in read_table(table, "wav.scp").items()
    ]


def _of_table(table: Path) -> list[Recording]:
    faults: list[Fault] = []
    source = Path("/dev/stdin") if str(table) == STDIN else table
    folder = table.parent if table.is_file() else Path()
    rows = [(n, line.split("\t")) for n, line in numbered_lines(source, faults, Counter(), pipe=True) if line.strip()]
    columns: Sequence[str] = ("path", "language", "domain")
    if rows and (fault := _separator_fault(rows[0][1])):
        refuse([Fault(str(table), rows[0][0], fault)])
    if rows and rows[0][1][0].strip().lower() in _HEADERS:
        number, header = rows.pop(0)
        columns = [name.strip().lower() for name in header]
        refuse([Fault(str(table), number, reason) for reason in _header_faults(columns)])
        unread = [name for name in columns if name not in COLUMNS]
        if unread:
            log.warning("notice: %s: columns that are not read: %s", table, ", ".join(unread))
    recordings = []
    for number, fields in rows:
        values = {COLUMNS[name]: value.strip() for name, value in zip(columns, fields, strict=False) if name in COLUMNS}
        path = folder / values.pop("path", "")
        if len(fields) > len(columns):
            reason = (
                f"has {len(fields)} columns, and {len(columns)} are allowed, separated by tabs: {' '.join(columns)}"
            )
            faults.append(Fault(str(table), number, reason))
        elif path == folder:
            faults.append(Fault(str(table), number, "has no path; a line begins with one"))
        recordings.append(
            Recording(str(path), path.name, {condition: value for condition, value in values.items() if value})
        )
    refuse(faults)
    return recordings


def _separator_fault(fields: Sequence[str]) -> str | None:
    """Return the fault of a header whose names are not separated by tabs, or None."""
    for separator in ",;|" if len(fields) == 1 else "":
        names = [name.strip().lower() for name in fields[0].split(separator)]
        if names[1:] and set(names) <= _HEADERS:
            return f"its columns are separated by {separator!r}; separate them by tabs"
    return None


def _header_faults(columns: Sequence[str]) -> Iterator[str]:
    """Faults of column names: the path is missing, or two names mean the same."""
    for meaning in ("path", *CONDITIONS):
        names = [name for name in columns if COLUMNS.get(name) == meaning]
        if meaning == "path" and not names:
            yield f"names the columns {' '.join(columns)}, and none is path; call the one with the files path"
        elif names[1:]:
            yield f"has the columns {' and '.join(names)}, which mean the same; rename one"


def by_channel(one: Recording) -> list[Recording]:
    """A recording for each channel of a file with several; a file that cannot be read stays, to be reported.

    Raises:
        DataError: The recording is standard input.
    """
    if one.path == STDIN:
        raise DataError("the channels of standard input cannot be read one by one; give files")
    with suppress(DataError), open_file(Path(one.path)) as file:
        if file.info.channels > 1:
            return [one._replace(channel=channel) for channel in range(file.info.channels)]
    return [one]


def _real(path: str) -> str:
    return path if path == STDIN or "\0" in path else os.path.realpath(path)


def _named(files: Sequence[Recording], with_ids: Sequence[Recording]) -> list[Recording]:
    """Recordings with unique names; the names of files have a suffix, and ids have none."""
    unnamed = [*files, *with_ids]
    stems = [_short(name) for name in [*(Path(one.name).stem for one in files), *(one.name for one in with_ids)]]
    ends = ["" if one.channel is None else f"-channel{one.channel}" for one in unnamed]
    stems = [f"{stem}{end}" for stem, end in zip(stems, ends, strict=True)]
    shared = Counter(stem.casefold() for stem in stems)
    taken, recordings = {_RESERVED_NAME}, []
    for one, stem, long_name, end in zip(unnamed, stems, _with_folders(unnamed), ends, strict=True):
        clear = shared[stem.casefold()] == 1 and stem.casefold() != _RESERVED_NAME
        base = name = stem if clear else f"{_short(long_name)}{end}"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.casefold())
        recordings.append(one._replace(name=name))
    return recordings


def _with_folders(recordings: Sequence[Recording]) -> list[str]:
    """Names with their suffix; if files of several folders share a name, the folders that differ come before it."""
    folders: dict[str, set[str]] = {}
    for one in recordings:
        folders.setdefault(one.name.casefold(), set()).add(_folder(one.path))
    common = {name: os.path.commonpath(several) for name, several in folders.items()}
    below = [os.path.relpath(_folder(one.path), common[one.name.casefold()]) for one in recordings]
    return ["-".join([*Path(part).parts, one.name]) for part, one in zip(below, recordings, strict=True)]


def _folder(path: str) -> str:
    return str(Path(os.path.normpath(Path.cwd() / path.replace("\0", ""))).parent)


def _short(name: str) -> str:
    return printable(name).encode()[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
