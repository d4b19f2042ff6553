"""Bytes that the header of an uncompressed file leaves out, which every reader would skip without a word.

A recorder that was cut off, or two files joined, leave a length in the header that is shorter than the samples. After
them there may be other chunks, such as a title; bytes that are no chunk are sound that was lost. Chunks are read of wav
(RIFF, RIFX and RF64), aiff and caf; au has none.
"""

import io
from typing import BinaryIO, Literal, NamedTuple

_LEAST = 1024  # bytes; writers pad


class _Layout(NamedTuple):
    """The start of the first chunk of a file, and the form of chunks: bytes of a length, their order, alignment."""

    start: int
    width: int
    order: Literal["little", "big"]
    samples: bytes
    even: bool = True


_LAYOUTS = {
    b"RIFF": _Layout(12, 4, "little", b"data"),
    b"RF64": _Layout(12, 4, "little", b"data"),
    b"RIFX": _Layout(12, 4, "big", b"data"),
    b"FORM": _Layout(12, 4, "big", b"SSND"),
    b"caff": _Layout(8, 8, "big", b"data", even=False),
}
_UNCLOSED = b"RIFF\x08\0\0\0"  # libsndfile reads such a file, whose samples have the length 0, to its end
_IN_DS64 = 0xFFFFFFFF  # the length of samples of an RF64, which has the true one in its first chunk


def unread_bytes(file: BinaryIO) -> int:
    """Number of bytes after the samples of an open file that belong to no chunk; 0 for other kinds of files."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(36)
    after = size
    if head[:4] == b".snd":
        after = int.from_bytes(head[4:8], "big") + int.from_bytes(head[8:12], "big")
    elif head[:4] in _LAYOUTS:
        after = _end_of_chunks(file, head, size, _LAYOUTS[head[:4]])
    return size - after if size - after >= _LEAST else 0


def _end_of_chunks(file: BinaryIO, head: bytes, size: int, layout: _Layout) -> int:
    """Find the byte after the samples and the chunks behind them, or `size` where nothing says that they end before."""
    at, after_samples, width = layout.start, False, 4 + layout.width
    while at + width <= size:
        file.seek(at)
        chunk = file.read(width)
        name, length = chunk[:4], int.from_bytes(chunk[4:], layout.order)
        if name == layout.samples and not after_samples:
            if length == 0 and head.startswith(_UNCLOSED):
                return size
            if length == _IN_DS64 and head.startswith(b"RF64"):
                length = int.from_bytes(head[28:36], "little")
            after_samples = True
        elif after_samples and not (_is_name(name) and at + width + length <= size):
            return at
        at += width + length + length % 2 * layout.even
    return size


def _is_name(name: bytes) -> bool:
    """Return whether a chunk can have this name; a second file behind the first is none."""
    return name not in _LAYOUTS and name.isascii() and name.decode("ascii").isprintable()
