"""Detection of damage in ogg files (vorbis, opus, flac) that decoders ignore, by page checksums and ends of streams.

A decoder skips a page whose checksum is wrong, or stops where it finds no more pages, without an error.
"""

import zlib
from mmap import ACCESS_READ, mmap
from pathlib import Path

from espnet_diverse.errors import DataError, TruncatedError

_HEAD = 27  # bytes of a page before the sizes of its segments
_BEGINS, _ENDS = 2, 4  # flags
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def check_ogg(path: Path, name: str | Path) -> bool:
    """Check the pages of an ogg file; other files are not looked at.

    libsndfile reads the first of several recordings in a file.

    Args:
        path: Path of the file, which is not empty.
        name: Name of the file in error messages.

    Returns:
        Whether the file holds several recordings, one after the other.

    Raises:
        DataError: A page is damaged or incomplete, or a stream has no end.
    """
    with path.open("rb") as file:
        if file.read(4) != b"OggS":
            return False
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return _check_pages(data, name) > 1


def _check_pages(data: mmap, name: str | Path) -> int:
    """The number of recordings. Each begins with one page for each of its streams that begins this stream."""
    unfinished: set[bytes] = set()
    at, recordings, in_head = 0, 0, False
    while unfinished or (at := data.find(b"OggS", at)) >= 0:  # after the end there may be tags
        head = data[at : at + _HEAD]
        sizes = data[at + _HEAD : at + _HEAD + head[26]] if len(head) == _HEAD else b""
        end = at + _HEAD + len(sizes) + sum(sizes)
        if len(head) < _HEAD or len(sizes) < head[26] or end > len(data):
            raise TruncatedError(f"{name}: ends inside an ogg page; the file is truncated, get it again")
        page = data[at : at + 22] + bytes(4) + data[at + 26 : end]
        if not head.startswith(b"OggS") or _checksum(page) != int.from_bytes(head[22:26], "little"):
            raise DataError(f"{name}: the ogg page at byte {at} is damaged; get the file again")
        flags, stream = head[5], head[14:18]
        recordings += bool(flags & _BEGINS) and not in_head
        in_head = bool(flags & _BEGINS)
        if flags & _ENDS:
            unfinished.discard(stream)
        elif flags & _BEGINS:
            unfinished.add(stream)
        at = end
        if unfinished and at == len(data):
            raise TruncatedError(f"{name}: its ogg stream has no end; the file is truncated, get it again")
    return recordings


def _checksum(page: bytes) -> int:
    """CRC-32 of 0x04c11db7 from the highest bit on: zlib's of reversed bytes, without its inversions."""
    reversed_crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reversed_crc:032b}"[::-1], 2)
