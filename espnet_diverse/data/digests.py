"""Digests of files, data directories and other folders, by which a change of an input is noticed."""

import hashlib
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from espnet_diverse.audio.ark import file_size


def is_data_directory(path: Path) -> bool:
    """Return whether `path` is a Kaldi data directory, with speech or with text only."""
    return (path / "wav.scp").is_file() or (path / "text").is_file()


def digest(path: Path) -> str | None:
    """SHA-256 digest of a file or folder; None if `path` does not exist.

    The digest of a file covers its content. The digest of a Kaldi data directory covers the content of its tables and
    the sizes of its audio files; for any other folder, which may be a large corpus, it covers the names, sizes and
    modification times of its files.
    """
    hasher = hashlib.sha256()
    if path.is_file():
        _add_content(hasher, path)
    elif is_data_directory(path):
        for table in sorted(path.iterdir()):
            if table.is_file() and not table.name.startswith(".") and table.suffix != ".ark":
                hasher.update(os.fsencode(f"{table.name}\0"))
                _add_content(hasher, table)
        for line in chain(_lines(path / "wav.scp"), _lines(path / "feats.scp")):
            hasher.update(f"{file_size(_path(line))}\n".encode())
    elif path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            status = file.stat()
            hasher.update(os.fsencode(f"{file.relative_to(path)}\0{status.st_size} {status.st_mtime_ns}\n"))
    else:
        return None
    return hasher.hexdigest()


def _add_content(hasher: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, lambda: hasher)


def _lines(path: Path) -> Iterator[str]:
    """Lines, and one after the last line end."""
    if path.is_file():
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            line = "\n"
            for line in file:
                yield line.removesuffix("\n")
            if line.endswith("\n"):
                yield ""


def _path(line: str) -> str:
    """The path in a line of a table, "" if there is none; any white space may precede it, as in `data.tables`."""
    return "".join(line.split(None, 1)[1:]).strip(" \t")
