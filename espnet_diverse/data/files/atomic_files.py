"""Atomic writes: files and directories that appear complete or not at all."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from espnet_diverse.data.files.locks import file_lock
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
