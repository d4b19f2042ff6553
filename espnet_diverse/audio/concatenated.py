"""Find the recordings in an mp3 or ogg file that holds several, one after the other.

Both formats allow concatenation. Players play all recordings of such a file, but libsndfile stops after the first one.

- mp3: the first frame of a recording may hold a header (Xing, Info or VBRI) that counts its frames. A recording ends
  after that many frames, before the next such header, or before a frame with another rate or number of channels.
- ogg: a recording begins with a page whose flag says that it begins a stream.
"""

from collections.abc import Iterator
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

_RATES = (44_100, 48_000, 32_000)
_RATE_SHIFT = {3: 0, 2: 1, 0: 2}  # by the version field (MPEG 1, 2, 2.5): how often the rates are halved
_KILOBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates of layer III, for MPEG-1 and for the other versions."""
_MIN_FRAMES_IN_A_ROW = 3  # fewer adjacent frames may be bytes that look like frames by chance
_EXTRA_FRAMES = 5  # so few frames beyond the count are no new recording, because writers count differently


class Part(NamedTuple):
    """One recording of a file.

    Attributes:
        start, end: Offsets of the first byte of the recording and of the byte after its last one.
        frames_in_header: Number of mp3 frames that the header of the recording gives; 0 without a header.
        frames_found: Number of mp3 frames that are in the file.
    """

    start: int
    end: int
    frames_in_header: int = 0
    frames_found: int = 0


class _Frame(NamedTuple):
    """The header of an mp3 frame: rate in Hz, whether it is mono, whether it is MPEG-1, and its size in bytes."""

    rate: int
    is_mono: bool
    is_mpeg1: bool
    size: int

    def continues(self, other: "_Frame") -> bool:
        return (self.rate, self.is_mono) == (other.rate, other.is_mono)


def file_parts(path: Path) -> list[Part]:
    """The recordings in an mp3 or ogg file, in order; an empty list for another file."""
    with path.open("rb") as file:
        if not file.read(1):  # which cannot be mapped
            return []
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return list(_ogg_parts(data) if data[:4] == b"OggS" else _mp3_parts(data))


def _ogg_parts(data: mmap) -> Iterator[Part]:
    """A recording begins with one page for each of its streams that begins this stream."""
    start = at = 0
    in_head = True
    while 0 <= at < len(data) - 27:
        segments = data[at + 26]
        if not in_head and data[at + 5] & 2:
            yield Part(start, at)
            start = at
        in_head = bool(data[at + 5] & 2)
        at = data.find(b"OggS", at + 27 + segments + sum(data[at + 27 : at + 27 + segments]))
    yield Part(start, len(data))


def _mp3_parts(data: mmap) -> Iterator[Part]:
    part = kind = None
    for at, frame in _frames(data, _skip_id3(data, 0)):
        count = _header_count(data, at, frame)
        if part is None or count is not None or not frame.continues(kind):
            if part is not None:
                yield from _split(data, part)
            # The frame that holds a header is not counted in it.
            part, kind = Part(at, at, count or 0, -(count is not None)), frame
        part = part._replace(end=at + frame.size, frames_found=part.frames_found + 1)
    if part is not None:
        yield from _split(data, part)


def _split(data: mmap, part: Part) -> Iterator[Part]:
    """The frames that the header of a part counts, and the frames after them as another part."""
    if 0 < part.frames_in_header < part.frames_found - _EXTRA_FRAMES:
        beyond, _ = next(islice(_frames(data, part.start), part.frames_in_header + 1, None))
        yield part._replace(end=beyond, frames_found=part.frames_in_header)
        yield Part(beyond, part.end, frames_found=part.frames_found - part.frames_in_header)
    else:
        yield part


def _frames(data: mmap, at: int) -> Iterator[tuple[int, _Frame]]:
    """Position and header of each mp3 frame; none where no frame begins at `at`."""
    before = None
    while (frame := _frame(data, at)) or before:
        if frame and (before and frame.continues(before) or _is_row(data, at)):
            yield at, frame
            at, before = at + frame.size, frame
        elif (at := _next_row(data, at)) < 0:
            break


def _skip_id3(data: mmap, at: int) -> int:
    """The end of the ID3 tags that begin at `at`; their size is in four times seven bits."""
    while data[at : at + 3] == b"ID3" and at + 10 <= len(data):
        size = data[at + 6 : at + 10]
        at += 10 + sum(byte << shift for byte, shift in zip(size, (21, 14, 7, 0), strict=True))
    return at


def _frame(data: mmap, at: int) -> _Frame | None:
    """The frame of layer III that begins at `at`, if any."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, bits, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version not in _RATE_SHIFT or rate == 3 or bits in (0, 15):
        return None
    hertz, is_mpeg1 = _RATES[rate] >> _RATE_SHIFT[version], version == 3
    size = (144_000 if is_mpeg1 else 72_000) * _KILOBITS[is_mpeg1][bits] // hertz + (head[2] >> 1 & 1)
    return _Frame(hertz, head[3] >> 6 == 3, is_mpeg1, size)


def _is_row(data: mmap, at: int) -> bool:
    """Return whether frames of one kind begin at `at`, enough of them or as many as the file has room for."""
    first = _frame(data, at)
    for _ in range(_MIN_FRAMES_IN_A_ROW):
        frame = _frame(data, at)
        if frame is None or not frame.continues(first):
            return False
        at += frame.size
        if at == len(data):
            break
    return True


def _next_row(data: mmap, at: int) -> int:
    """The start of the next row of frames after `at`; -1 if there is none."""
    after_tags = _skip_id3(data, at)
    at = after_tags if after_tags > at else data.find(b"\xff", at + 1)
    while at >= 0 and not _is_row(data, at):
        at = data.find(b"\xff", at + 1)
    return at


def _header_count(data: mmap, at: int, frame: _Frame) -> int | None:
    """The number of frames in the Xing, Info or VBRI header of a frame, 0 if left out; None without such a header."""
    side_info = (17 if frame.is_mono else 32) if frame.is_mpeg1 else (9 if frame.is_mono else 17)
    header = data[at + 4 + side_info : at + 16 + side_info]
    if header[:4] in (b"Xing", b"Info"):
        return int.from_bytes(header[8:], "big") if header[7:8] and header[7] & 1 else 0
    header = data[at + 36 : at + 54]
    return int.from_bytes(header[14:], "big") if header[:4] == b"VBRI" else None
