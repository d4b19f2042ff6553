"""Directories and files that a command may replace: neither originals nor its inputs.

Commands that write data directories leave a mark in each, `.prepared.json`, with the names of the files in it, and so
do `adopt` and `prune` in directories of models. A directory without the mark, or with other files, belongs to the user
and is not replaced. Earlier versions left no mark; in data directories their dropped.tsv stands for it.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from espnet_diverse.audio.ark import is_file
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import check_no_file, is_partial, write_text
from espnet_diverse.data.kaldi import DROPPED, DataTables
from espnet_diverse.data.tables import COLUMNS, entry_faults
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.whole_files import read_json

MARK = ".prepared.json"
OF_DATA = (MARK, "wav.scp", "feats.scp", "segments", "utt2spk", "src_text")
"""Files that a data directory may have, and a directory of hypotheses does not."""
OF_HYPOTHESES = ("score", "failures.json")
"""Files that are written before or with the text of hypotheses."""
_EARLIER = (*COLUMNS, "spk2utt", "dropped.tsv", "wav")


def check_target(sets: Mapping[str, DataTables], output_dir: Path) -> None:
    """Refuse to replace a directory that is not a data directory, or that contains the audio to read.

    Raises:
        DataError: `output_dir` or one of its directories cannot be written to.
    """
    refuse([Fault("output directory", None, reason) for reason in entry_faults("wav.scp", "", str(output_dir))])
    resolved = lru_cache(maxsize=1024)(Path.resolve)  # most recordings are in few folders

    def is_inside(file: Path, folder: Path) -> bool:
        in_folder = resolved(file.parent).is_relative_to(folder)
        return in_folder or is_file(file) and file.is_symlink() and file.resolve().is_relative_to(folder)

    for name, data in sets.items():
        target = output_dir / name
        tables = [target / table for table in ("wav.scp", "text")]
        if target.is_dir() and any(target.iterdir()) and not any(table.is_file() for table in tables):
            raise DataError(f"{target}: exists and is no data directory; move it away or choose another path")
        final = _real(target)
        for recording, path in data.wav_scp.items() if target.exists() else ():
            if is_inside(Path(path), final):
                raise DataError(
                    f"{target}: would be replaced, but contains the audio of {recording}; choose another path"
                )


def check_unread(target: Path, sources: Iterable[Path]) -> None:
    """Refuse to replace a directory that is an input.

    Args:
        target: Directory to write; it need not exist.
        sources: Files and directories that are read.

    Raises:
        DataError: `target` is one of `sources` or contains it, also by another name.
    """
    final = _real(target)
    for source in sources:
        if source.exists() and (real := source.resolve()).is_relative_to(final):
            kind = "directory" if source.is_dir() else "file"
            reason = f"is the {kind} to read, {source}" if real == final else f"contains {source}, which is read"
            raise DataError(f"{target}: {reason}; choose another path")


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse to overwrite an input file, or to write into an input directory.

    Args:
        outputs: Files and directories to write; they need not exist.
        inputs: Files and directories that are read.

    Raises:
        DataError: An output is one of `inputs`, or directly in a directory of them, also by another name.
    """
    read = {source.resolve(): source for source in inputs if source.exists()}
    for output in outputs:
        final, folder = _real(output), output.parent
        for place, shown in ((final, output), (final.parent, folder), (_real(folder), folder)):
            if place in read:
                kind = "directory" if place.is_dir() else "file"
                raise DataError(f"{shown}: is the {kind} to read, {read[place]}; choose another path")


def _real(target: Path) -> Path:
    """The path of an output without symlinks.

    Raises:
        DataError: Symlinks lead back to themselves.
    """
    try:
        target.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"{target}: is in a loop of symlinks; choose another path") from error
    return target.resolve()


def check_no_data(output_dir: Path) -> None:
    """Refuse to write hypotheses, which also have a table `text`, into a data directory.

    Raises:
        DataError: `output_dir` has a table that hypotheses do not have, or a text without their scores.
    """
    tables = [name for name in (*OF_DATA, "text") if (output_dir / name).is_file()]
    if tables and (tables[0] != "text" or not any((output_dir / name).is_file() for name in OF_HYPOTHESES)):
        reason = f"has {tables[0]}, so it is a data directory, whose text would be lost"
        raise DataError(f"{output_dir}: {reason}; choose another path")


def check_prepared(target: Path, command: str | None = None) -> None:
    """Refuse to replace a directory that has no mark, or that has other files since.

    Args:
        target: The directory; it need not exist.
        command: Command whose mark it must have; by default, any command that writes data directories.

    Raises:
        DataError: It is a file, or it is not empty and has no mark of the command, or has files that the mark does not
            name.
    """
    check_no_file(target)
    names = sorted(_names(target)) if target.is_dir() else []
    written = _written(target, command)
    if names and written is None:
        raise DataError(
            f"{target}: exists, and nothing shows that {_writer(command)} has written it (an earlier version left no "
            f"{MARK}); move it away or choose another path"
        )
    foreign = [name for name in names if name not in (written or []) and not name.startswith(".")]
    if foreign:
        reason = f"has {foreign[0]}, which {_writer(command)} has not written"
        raise DataError(f"{target}: {reason}; move it away or choose another path")


def mark_prepared(path: Path, command: str | None = None, later: Iterable[str] = ()) -> None:
    """Mark a directory as written by a command, with the names of its files and of files that will be written later."""
    names = sorted({*later, *_names(path)})
    by = {} if command is None else {"command": command}
    write_text(path / MARK, json.dumps({"files": names, **by}, ensure_ascii=False) + "\n")


def _names(folder: Path) -> Iterator[str]:
    """Return the names in a folder without the mark, of which a kill may have left a partial file."""
    names = (path.name for path in folder.iterdir())
    return (name for name in names if name != MARK and not is_partial(name))


def _writer(command: str | None) -> str:
    return "espnet-diverse" if command is None else f"`{command}`"


def _written(target: Path, command: str | None) -> list[str] | None:
    """Names of the files that a command has written to a directory; None if nothing shows that it has written any."""
    try:
        mark = read_json(target / MARK)
        if mark.get("command") != command:
            return None
        return [str(name) for name in mark["files"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # an unreadable mark is treated as missing
        pass
    if command is not None:
        return None
    try:
        with (target / "dropped.tsv").open(encoding="utf-8") as file:
            first = file.readline()
    except (OSError, ValueError):
        return None
    arks = [path.name for path in target.glob("wav.*.ark")]
    return [*_EARLIER, *arks] if first == DROPPED else None
