"""Recordings that were put one after the other into one file: mp3, and ogg.

Both formats allow it: players go on with the next part. libsndfile ends with the first one, which for mp3 is told by a
tag in its first frame (Xing, Info or VBRI), else by the first frame of another rate or number of channels.
"""

from collections.abc import Iterator
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

_RATES = (44_100, 48_000, 32_000)
_DIVIDED = {3: 0, 2: 1, 0: 2}  # by version of MPEG (1, 2, 2.5) how often its rates are halved
_KILOBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""By whether it is MPEG-1 the bit rates of layer III."""
_ROW = 3  # frames, one after the other, that are no accident
_SLACK = 5  # frames more than are told, which are no part of their own: not all writers count alike


class Part(NamedTuple):
    """Bytes `start` to `end` of a file; of mp3 the frames that its tag tells, 0 without, and those that there are."""

    start: int
    end: int
    told: int = 0
    found: int = 0


class _Frame(NamedTuple):
    """The header of a frame of mp3: Hz, whether it has one channel, whether it is of MPEG-1, and its bytes."""

    rate: int
    is_mono: bool
    is_first_mpeg: bool
    size: int

    def is_like(self, other: "_Frame") -> bool:
        return (self.rate, self.is_mono) == (other.rate, other.is_mono)


def file_parts(path: Path) -> list[Part]:
    """The parts of an mp3 or ogg file in their order; none of another file."""
    with path.open("rb") as file:
        if not file.read(1):  # which cannot be mapped
            return []
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return list(_ogg_parts(data) if data[:4] == b"OggS" else _mp3_parts(data))


def _ogg_parts(data: mmap) -> Iterator[Part]:
    """A part begins with pages that begin a stream, one a stream."""
    start = at = 0
    begins = True
    while 0 <= at < len(data) - 27:
        segments = data[at + 26]
        if not begins and data[at + 5] & 2:
            yield Part(start, at)
            start = at
        begins = bool(data[at + 5] & 2)
        at = data.find(b"OggS", at + 27 + segments + sum(data[at + 27 : at + 27 + segments]))
    yield Part(start, len(data))


def _mp3_parts(data: mmap) -> Iterator[Part]:
    part = kind = None
    for at, frame in _frames(data, _after_titles(data, 0)):
        told = _told(data, at, frame)
        if part is None or told is not None or not frame.is_like(kind):
            if part is not None:
                yield from _split(data, part)
            # The frame that holds a tag is not among those that it tells.
            part, kind = Part(at, at, told or 0, -(told is not None)), frame
        part = part._replace(end=at + frame.size, found=part.found + 1)
    if part is not None:
        yield from _split(data, part)


def _split(data: mmap, part: Part) -> Iterator[Part]:
    """A part as far as its tag tells, and the frames behind that."""
    if 0 < part.told < part.found - _SLACK:
        beyond, _ = next(islice(_frames(data, part.start), part.told + 1, None))
        yield part._replace(end=beyond, found=part.told)
        yield Part(beyond, part.end, found=part.found - part.told)
    else:
        yield part


def _frames(data: mmap, at: int) -> Iterator[tuple[int, _Frame]]:
    """Where each frame of mp3 begins, and its header; none where no frame begins at `at`."""
    before = None
    while (frame := _frame(data, at)) or before:
        if frame and (before and frame.is_like(before) or _is_row(data, at)):
            yield at, frame
            at, before = at + frame.size, frame
        elif (at := _next_row(data, at)) < 0:
            break


def _after_titles(data: mmap, at: int) -> int:
    """Where ID3 tags that begin at `at` end; their size is in four times seven bits."""
    while data[at : at + 3] == b"ID3" and at + 10 <= len(data):
        size = data[at + 6 : at + 10]
        at += 10 + sum(byte << shift for byte, shift in zip(size, (21, 14, 7, 0), strict=True))
    return at


def _frame(data: mmap, at: int) -> _Frame | None:
    """The frame of layer III that begins at `at`, if one does."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, bits, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version not in _DIVIDED or rate == 3 or bits in (0, 15):
        return None
    hertz, first = _RATES[rate] >> _DIVIDED[version], version == 3
    size = (144_000 if first else 72_000) * _KILOBITS[first][bits] // hertz + (head[2] >> 1 & 1)
    return _Frame(hertz, head[3] >> 6 == 3, first, size)


def _is_row(data: mmap, at: int) -> bool:
    """Whether frames of one kind begin at `at`, enough of them or as many as there is room for."""
    first = _frame(data, at)
    for _ in range(_ROW):
        frame = _frame(data, at)
        if frame is None or not frame.is_like(first):
            return False
        at += frame.size
        if at == len(data):
            break
    return True


def _next_row(data: mmap, at: int) -> int:
    """Where after `at` the next row of frames begins; -1 where none does."""
    titles = _after_titles(data, at)
    at = titles if titles > at else data.find(b"\xff", at + 1)
    while at >= 0 and not _is_row(data, at):
        at = data.find(b"\xff", at + 1)
    return at


def _told(data: mmap, at: int, frame: _Frame) -> int | None:
    """Frames that a tag in the frame tells, 0 where it leaves that out; None where there is no tag."""
    side = (17 if frame.is_mono else 32) if frame.is_first_mpeg else (9 if frame.is_mono else 17)
    tag = data[at + 4 + side : at + 16 + side]
    if tag[:4] in (b"Xing", b"Info"):
        return int.from_bytes(tag[8:]) if tag[7:8] and tag[7] & 1 else 0
    tag = data[at + 36 : at + 54]
    return int.from_bytes(tag[14:]) if tag[:4] == b"VBRI" else None
