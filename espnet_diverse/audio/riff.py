"""Bytes of a wav file that its header leaves out, which every reader would skip without a word.

A recorder that was cut off, or two files joined, leave a length in the header that is shorter than the samples. After
them there may be other chunks, such as a title; bytes that are no chunk are sound that was lost.
"""

from pathlib import Path

_LEAST = 1024  # bytes; writers pad


def unread_bytes(path: Path) -> int:
    """Number of bytes after the samples of a wav file that belong to no chunk; 0 for other files."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return 0
        at, after_data = 12, False
        while at + 8 <= size:
            file.seek(at)
            chunk = file.read(8)
            length = int.from_bytes(chunk[4:], "little")
            is_chunk = chunk[:4].isascii() and chunk[:4].decode("ascii").isprintable() and at + 8 + length <= size
            if after_data and not is_chunk:
                return size - at if size - at >= _LEAST else 0
            after_data = after_data or chunk[:4] == b"data"
            at += 8 + length + length % 2
    return 0
