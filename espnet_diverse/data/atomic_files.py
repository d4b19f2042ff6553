"""Atomic writes: files and directories that appear complete or not at all."""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from espnet_diverse.errors import DataError


def write_text(path: Path, text: str) -> None:
    """Write `text` as utf-8 to a temporary file beside `path`, then rename it."""
    write_parts(path, [text])


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """Write parts of a text, one after another, as `write_text` does."""
    with staged_file(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Yield the path of a file to write, beside `target`, which it replaces when the block ends without an exception.

    Of several processes or threads that write the same file, on any machine, the last one wins. The path ends as
    `target` does.
    """
    partial = target.with_name(f".{target.stem[:40]}.{os.urandom(6).hex()}.partial{target.suffix[:20]}")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def file_lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Let one process at a time read a file, change it and write it, where the file system has locks.

    The lock is one of the operating system on a file beside `path`, which is deleted at the end of the block.

    Args:
        path: The file, or a directory.
        wait: Whether to wait until another process or thread has ended its block.

    Raises:
        DataError: Another one holds the lock, and `wait` is false.
    """
    lock = path.with_name(f".{path.name}.lock")
    how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            os.close(descriptor)
            what = "another process is writing it; wait until it has ended, or choose another path"
            raise DataError(f"{path}: {what}") from None
        except OSError:  # of a file system without locks
            pass
        if is_at(descriptor, lock):
            break
        os.close(descriptor)  # the process that held the lock before has deleted the file
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one at `path`, and was not deleted or replaced since it was opened."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def check_no_file(target: Path) -> None:
    """Check that a directory can be written at `target`.

    Raises:
        DataError: `target` is a file.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"{target}: is a file, but a directory is to be written here; choose another path")


@contextmanager
def staged_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that replaces `target` when the block ends without an exception.

    It is beside `target`, on the same file system, so that the rename is atomic. If the block raises, it is removed and
    `target` stays as it was. Directories left by a killed process are removed at the next start; if it was killed
    before the new directory had taken the place of the old one, the old one returns. Where `target` is a
    link, the directory that it leads to is replaced, and the link stays.

    Raises:
        DataError: `target` is a file or the working directory, or another process or an outer block is writing it.
    """
    check_no_file(target)
    if target.name in ("", ".."):
        raise DataError(f"{target}: would be replaced as a whole, with the working directory; give a folder in it")
    if target.is_symlink():
        target = target.resolve()
    parent_is_new = not target.parent.exists()
    if parent_is_new:
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(target, wait=False):  # both would delete what the other has written so far
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
