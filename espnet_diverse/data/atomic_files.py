"""Atomic writes: files and directories that appear complete or not at all."""

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
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def staged_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that replaces `target` when the block ends without an exception.

    It is beside `target`, on the same file system, so that the rename is atomic. If the block raises, it is removed and
    `target` stays as it was. Directories left by a killed process are removed at the next start. Where `target` is a
    link, the directory that it leads to is replaced, and the link stays.

    Raises:
        DataError: `target` is a file.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"{target}: is a file, but a directory is to be written here; choose another path")
    if target.is_symlink():
        target = target.resolve()
    parent_is_new = not target.parent.exists()
    staging = target.with_name(f".{target.name}.partial")
    previous = target.with_name(f".{target.name}.previous")
    for leftover in (staging, previous):
        if leftover.exists():
            shutil.rmtree(leftover)
    try:
        staging.mkdir(parents=True)
        yield staging
        if target.exists():
            target.replace(previous)
        staging.replace(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        if parent_is_new:
            with suppress(OSError):
                target.parent.rmdir()
        raise
    shutil.rmtree(previous, ignore_errors=True)
