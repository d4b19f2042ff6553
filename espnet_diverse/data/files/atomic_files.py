"""Atomic writes: files and directories that appear complete or not at all."""

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from espnet_diverse.data.files.disk_space import named_if_full
from espnet_diverse.data.files.locks import NO_LOCKS, claim, file_lock, give_up, is_at
from espnet_diverse.errors import DataError

_STAGED = r"\..+\.(partial\.[0-9a-f]+|[0-9a-f]{12}\.partial)(\..*)?"  # the second form in versions up to 0.2


def write_text(path: Path, text: str, durable: bool = False) -> None:
    """Write `text` as utf-8 to a temporary file next to `path`, then rename it; `durable` as in `staged_file`."""
    write_parts(path, [text], durable)


def write_parts(path: Path, parts: Iterable[str], durable: bool = False) -> None:
    """Write parts of a text, one after another, as `write_text` does."""
    with staged_file(path, durable) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)


@contextmanager
def staged_file(target: Path, durable: bool = False) -> Iterator[Path]:
    """Yield the path of a file to write, next to `target`, which it replaces if the block ends without an exception.

    Of several processes or threads that write the same file, on any machine, the last one wins. The path ends as
    `target` does. A file left by a killed process is overwritten or removed by the next process that writes `target`.

    Args:
        target: The file.
        durable: Whether its content is on the disk before it replaces `target`, and survives a loss of power. This
            takes some 10 ms, for files without which a run cannot resume.

    Raises:
        OSError: There is no room for the file, or it cannot be written; the error has a file name.
    """
    if target.is_dir() and not target.is_symlink():  # before the work, and with its own name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    with _claimed(target) as partial, named_if_full(target):
        yield partial
        if durable:
            _sync(partial)
        partial.replace(target)
        if durable:
            _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def scratch_directory(beside: Path) -> Iterator[Path]:
    """Yield an empty hidden directory next to a path, which is removed at the end of the block.

    Each process and thread has its own directory. One left by a killed process is removed by the next call for the same
    path.
    """
    with _claimed(beside, is_folder=True) as folder, named_if_full(beside):
        yield folder


@contextmanager
def _claimed(target: Path, is_folder: bool = False) -> Iterator[Path]:
    """Yield the path of a hidden file or folder that no other process uses, and remove it if it is still there.

    It gets the first name of a series whose file is not locked, so names left by killed processes are used again.
    """

    def named(number: int | str) -> Path:
        return target.with_name(f".{target.stem[:40]}.partial.{number}{target.suffix[:20]}")

    row = map(named, count())
    descriptor = None
    try:
        path, descriptor = next((path, claimed) for path in row if (claimed := claim(path, is_folder)) is not None)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            error.filename = str(target)
            raise
        _remove(named(0))
        path = named(os.urandom(6).hex())
        if is_folder:
            path.mkdir()
    try:
        for other in row:  # from several processes that were killed while they wrote
            if not os.path.lexists(other):
                break
            if (claimed := claim(other, is_folder)) is not None:
                _remove(other)
                give_up(claimed)
        if is_folder:
            for entry in path.iterdir():
                _remove(entry)
        yield path
    finally:
        if descriptor is None or is_at(descriptor, path):  # else it has become the target, and its name is in use
            _remove(path)
        if descriptor is not None:
            give_up(descriptor)


def is_partial(name: str) -> bool:
    """Return whether a file or folder was made by `staged_file` or `scratch_directory`, by its name."""
    return re.fullmatch(_STAGED, name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove files and folders of `staged_file` and `scratch_directory` that killed processes left in a folder."""
    for path in folder.glob(".*.partial*"):
        with suppress(OSError):  # without locks, another process may be writing it
            if is_partial(path.name) and (descriptor := claim(path, path.is_dir())) is not None:
                _remove(path)
                give_up(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_no_file(target: Path) -> None:
    """Check that a directory can be written at `target`.

    Raises:
        DataError: `target` is a file.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"{target}: is a file, but a directory must be written here; choose another path")


@contextmanager
def staged_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that replaces `target` when the block ends without an exception.

    It is next to `target`, on the same file system, so that the rename is atomic. If the block raises, it is removed
    and `target` stays as it was. Directories left by a killed process are removed at the next start; if it was killed
    before the new directory had replaced the old one, the old one is restored. If `target` is a link, the directory
    that it points to is replaced, and the link stays.

    Raises:
        DataError: `target` is a file, or is or holds the working directory; or another process or an outer block is
            writing it.
    """
    check_no_file(target)
    if target.name == ".." or Path.cwd().is_relative_to(target.resolve()):
        raise DataError(f"{target}: would be replaced as a whole, with the working directory; give a folder in it")
    if target.is_symlink():
        target = target.resolve()
    parent_is_new = not target.parent.exists()
    if parent_is_new:
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            named_if_full(target),
            file_lock(target, wait=False),
        ):  # both would delete what the other has written so far
            yield from _staged(target)
    except BaseException:
        if parent_is_new:
            with suppress(OSError):
                target.parent.rmdir()
        raise


def _staged(target: Path) -> Iterator[Path]:
    staging = target.with_name(f".{target.name}.partial")
    previous = target.with_name(f".{target.name}.previous")

    def restore() -> None:
        if previous.exists() and not target.exists():
            previous.replace(target)

    restore()
    for leftover in (staging, previous):
        if leftover.exists():
            shutil.rmtree(leftover)
    try:
        staging.mkdir()
        yield staging
        if target.exists():
            target.replace(previous)
        staging.replace(target)
    except BaseException:
        restore()
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(previous, ignore_errors=True)
