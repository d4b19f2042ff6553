"""Audio in Kaldi's arks: an entry such as wav.1.ark:1234 is an ark and the byte at which a recording begins.

Two kinds of entries are read: wav, as Kaldi writes it, and wav, flac or ogg after the word AUDIO and the length, as
kaldiio writes it (`writing.ArkWriter`). Entries are opened here and not by kaldiio, which would also run a name that
ends in a pipe as a command, and unpickle an entry that begins with PKL.
"""

import io
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.errors import DataError

WAV = "wav in an ark"
"""Kind of entries that Kaldi writes. kaldiio, and so training, reads their samples as integers."""
CODED = "coded audio in an ark"
"""Kind of entries that kaldiio writes. Training reads their samples as from a file."""
FRAMES = re.compile(r"\[(\d{1,9}):(\d{1,9})\]\Z")
"""A range of frames after an entry: its first and its last frame."""

_ENTRY = re.compile(r"(.+):(\d{1,18})")
_SOUND = (b"RIFF", b"fLaC", b"OggS")
_OTHERS = {b"\0B": "a matrix or a vector", b"PKL": "a Python object", b"NPY": "an array of NumPy"}
_LONGEST_LENGTH = 8  # bytes


class ArkEntry(NamedTuple):
    """An ark and the byte in it at which a recording or a matrix begins."""

    path: Path
    offset: int


def ark_entry(path: str | Path) -> ArkEntry | None:
    """The entry of an ark that a path such as wav.1.ark:1234 names; None for other paths, and for an existing file."""
    match = _ENTRY.fullmatch(str(path))
    return ArkEntry(Path(match[1]), int(match[2])) if match and not is_file(Path(path)) else None


def without_frames(path: str) -> str:
    """Remove the range of frames from an entry of an ark, such as raw.1.ark:1234[0:99]; leave other paths unchanged."""
    entry = FRAMES.sub("", path)
    return path if entry == path or is_file(Path(path)) or ark_entry(entry) is None else entry


def file_size(path: str) -> int:
    """Size of a file in bytes, or the bytes of an ark from an entry on; -1 if it does not exist."""
    return file_status(path)[0]


def file_status(path: str) -> tuple[int, int]:
    """`file_size`, and the time of the last change of the file or ark in nanoseconds; -1 and 0 if it does not exist."""
    entry = ark_entry(without_frames(path))
    file, offset = entry or (path, 0)
    try:
        status = os.stat(file)  # noqa: PTH116, a path object takes as long as the call
    except (OSError, ValueError):  # ValueError: a null character
        return -1, 0
    return (status.st_size - offset, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else (-1, 0)


def is_file(path: Path) -> bool:
    """Return whether a path is a file; pathlib raises an error for a name that is too long."""
    try:
        return path.is_file()
    except OSError:  # no file has a name this long
        return False


class ArkPart(io.RawIOBase):
    """The recording of an entry, as a readable file.

    Args:
        entry: The entry.
        name: Its name in error messages.

    Attributes:
        kind: `WAV` or `CODED`.

    Raises:
        DataError: There is no audio at this byte, or the ark ends before it does.
    """

    def __init__(self, entry: ArkEntry, name: str | Path):
        self._file = entry.path.open("rb")
        self.kind, self._start, self._size = self._span(entry.offset, name)
        self._place = 0

    def _span(self, offset: int, name: str | Path) -> tuple[str, int, int]:
        """Kind of an entry, its first byte and its length."""
        total = self._file.seek(0, io.SEEK_END)
        self._file.seek(offset)
        head = self._file.read(6 + _LONGEST_LENGTH)
        if head.startswith(b"AUDIO") and len(head) > 6 and head[5] <= _LONGEST_LENGTH:
            kind, start, size = CODED, offset + 6 + head[5], int.from_bytes(head[6 : 6 + head[5]], "little")
            self._file.seek(start)
            head = self._file.read(4)
        else:
            kind, start, size = WAV, offset, 8 + int.from_bytes(head[4:8], "little")
        if not head.startswith(_SOUND if kind == CODED else b"RIFF"):
            other = next((content for mark, content in _OTHERS.items() if head.startswith(mark)), "something else")
            content = "nothing" if offset >= total else other
            raise DataError(f"{name}: there is {content} at byte {offset}, no audio; correct the entry or get the ark")
        if start + size > total:
            raise DataError(f"{name}: holds {total - start} of {size} bytes; the ark is truncated, get it again")
        return kind, start, size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move as in any file; a position before the beginning becomes the beginning."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """The position of the next byte."""
        return self._place

    def readinto(self, buffer) -> int:
        """Read up to the end of the recording."""
        self._file.seek(self._start + self._place)
        data = self._file.read(max(0, min(len(buffer), self._size - self._place)))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)

    def close(self) -> None:
        """Close the ark."""
        self._file.close()
        super().close()
