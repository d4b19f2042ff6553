"""Detection of files that decoders do not read to the end without an error.

libsndfile trusts a wrong header: after it has read the last sample by the header, its position in the file is compared
with the size of the file. In ogg files (vorbis, opus, flac) a decoder skips a page whose checksum is wrong, or stops
where it finds no more pages; so checksums and ends of streams are checked.
"""

import io
import re
import zlib
from contextlib import suppress
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal, NamedTuple

from espnet_diverse.audio.ark import ArkPart, ark_entry
from espnet_diverse.audio.libsndfile import BLOCK_SAMPLES, Sound
from espnet_diverse.audio.media import MediaFormat
from espnet_diverse.errors import DataError, TruncatedError

_LEAST = 1024  # bytes; writers pad
_TAG = 128  # bytes of an ID3v1 tag, at the end of many mp3 files
_PADDING = 3 * 1152  # samples; the last frames of an mp3 may hold no samples that its header counts
_MOST_SAMPLES = 1 << 50  # libsndfile reports more for a flac without a length
_MOST_BEFORE = 2 * 1441  # bytes of the frames that libsndfile reads when it opens an mp3
_COUNT = re.compile(rb"(?:Xing|Info)\0\0\0[\x01\x03\x05\x07\x09\x0b\x0d\x0f](?!\0{4})|VBRI")
_FLAC = re.compile(rb"fLaC[\x00\x80]\0\0\x22")
_SIZE = re.compile(rb"(?:Xing|Info)\0\0\0[\x03\x07\x0b\x0f].{4}(.{4})", re.DOTALL)
_MOST_SIDE_INFO = 36  # bytes of a frame before its count
_CHUNKS: dict[bytes, tuple[int, Literal["little", "big"]]] = {
    b"RIFF": (4, "little"),
    b"RF64": (4, "little"),
    b"RIFX": (4, "big"),
    b"FORM": (4, "big"),
    b"caff": (8, "big"),
    b".snd": (0, "big"),  # has no chunks
}
"""Number and order of the bytes of a chunk's length, by the first bytes of an uncompressed file."""

PAGE_HEAD = 27  # bytes of a page of ogg before the sizes of its segments
_BEGINS, _ENDS = 2, 4  # flags of a page: a stream begins, or ends
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class _Last(NamedTuple):
    """The last sample: whether it is there, and the position in the file after it."""

    is_there: bool
    position: int


def unread_format(path: Path, name: str | Path) -> MediaFormat | None:
    """Detect an mp3 or flac that libsndfile would cut short; None for other files.

    Args:
        path: Path of the file.
        name: Name of the file in error messages.

    Raises:
        DataError: An mp3 is damaged, or one of several recordings in it is truncated.
    """
    status = path.stat()
    return _unread_format(path, name, status.st_size, status.st_mtime_ns)


@lru_cache(8)  # a long recording is opened for each of its segments
def _unread_format(path: Path, name: str | Path, size: int, changed: int) -> MediaFormat | None:
    with path.open("rb", buffering=0) as file:
        if file.read(4) in _CHUNKS:
            return None
        file.seek(0)
        try:
            sound = Sound(file.fileno(), closefd=False)
        except RuntimeError:  # reported when the file is read
            return None
        with sound:
            if sound.format not in ("FLAC", "MP3"):
                return None
            with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                is_flac = sound.format == "FLAC"
                return _flac_format(sound, file, data) if is_flac else _mp3_format(sound, file, data, name)


def _flac_format(sound: Sound, file: io.RawIOBase, data: mmap) -> MediaFormat | None:
    if sound.frames > _MOST_SAMPLES:
        return MediaFormat("flac without its length", "flac")
    last = _read_last(sound, file)
    if not (last.is_there and len(data) - last.position > _LEAST or _FLAC.search(data, 4)):
        return None
    counts = [int.from_bytes(data[found.start() + 21 : found.start() + 26], "big") for found in _FLAC.finditer(data)]
    samples = sum(count % (1 << 36) for count in counts)
    return MediaFormat("flac longer than its length", "flac", seconds=samples / sound.samplerate)


def _mp3_format(sound: Sound, file: io.RawIOBase, data: mmap, name: str | Path) -> MediaFormat | None:
    opened, samples = file.tell(), max(1, sound.frames)
    if not _COUNT.search(data, max(0, opened - _MOST_BEFORE), opened):
        return MediaFormat("mp3 without its length", "mp3", is_strict=False)

    read = 0
    with suppress(RuntimeError):  # no seek, after which the decoder prints complaints about sound files
        while count := len(sound.read(BLOCK_SAMPLES, dtype="float32")):
            read += count
    remaining = len(data) - file.tell()
    if remaining <= _TAG + _PADDING * (file.tell() - opened) / samples:
        return None
    if read < samples:
        lost = f"libsndfile does not decode {remaining} bytes in it"
        todo = "get it again, or convert it: ffmpeg -i X Y.wav"
        raise DataError(f"{name}: {lost}; it is damaged, or a part has another rate: {todo}")
    _check_sizes(data, name)
    return MediaFormat("concatenated mp3", "mp3", is_strict=False)


def unread_bytes(path: Path, name: str | Path) -> int:
    """Number of bytes after the samples of a wav, aiff, au or caf that belong to no chunk; 0 for other files.

    A recorder that was cut off, or two files joined, leave a length in the header that is shorter than the samples.
    Other chunks may follow the samples, such as a title.

    Args:
        path: Path of the file, or an entry of an ark.
        name: Name of the file in error messages.
    """
    entry = ark_entry(path)
    with ArkPart(entry, name) if entry else path.open("rb", buffering=0) as file:
        mark = file.read(4)
        if mark not in _CHUNKS:
            return 0
        file.seek(0)
        with Sound(file if entry else file.fileno(), closefd=False) as sound:
            last = _read_last(sound, file)
        size = file.seek(0, io.SEEK_END)
        remaining = size - _end_of_chunks(file, last.position, size, mark)
    return remaining if last.is_there and remaining >= _LEAST else 0


def _read_last(sound: Sound, file: io.RawIOBase) -> _Last:
    is_there = False
    with suppress(RuntimeError):
        sound.seek(sound.frames - 1)
        is_there = len(sound.read(1)) == 1
    return _Last(is_there, file.tell())


def _check_sizes(data: mmap, name: str | Path) -> None:
    """Compare the sizes in the headers of mp3 recordings with the beginnings of the next recordings."""
    matches = list(_SIZE.finditer(data))
    limits = [*(one.start() for one in matches[1:]), len(data)]
    for number, (one, limit) in enumerate(zip(matches, limits, strict=True), start=1):
        size, available = int.from_bytes(one[1], "big"), limit - one.start()
        if size > available + _MOST_SIDE_INFO:
            reason = f"recording {number} of {len(matches)} has about {available} of {size} bytes"
            raise DataError(f"{name}: {reason}; the file is truncated, get it again")


def _end_of_chunks(file: io.RawIOBase, at: int, size: int, mark: bytes) -> int:
    """The byte after the chunks that begin at `at`."""
    width, order = _CHUNKS[mark]
    is_even = mark != b"caff"
    at += at % 2 * is_even
    while width and at + 4 + width <= size:
        file.seek(at)
        chunk = file.read(4 + width)
        end = at + len(chunk) + int.from_bytes(chunk[4:], order)
        is_name = chunk[:4] not in _CHUNKS and chunk[:4].isascii() and chunk[:4].decode("ascii").isprintable()
        if not is_name or end > size:
            break
        at = end + end % 2 * is_even
    return at


def check_ogg(path: Path, name: str | Path) -> bool:
    """Check the pages of an ogg file; other files are not checked.

    libsndfile reads only the first of several recordings in a file.

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
    """The number of recordings. Each begins with the first pages of all of its streams."""
    unfinished: set[bytes] = set()
    at, recordings, in_head = 0, 0, False
    while unfinished or (at := data.find(b"OggS", at)) >= 0:  # after the end there may be tags
        head = data[at : at + PAGE_HEAD]
        sizes = data[at + PAGE_HEAD : at + PAGE_HEAD + head[26]] if len(head) == PAGE_HEAD else b""
        end = at + PAGE_HEAD + len(sizes) + sum(sizes)
        if len(head) < PAGE_HEAD or len(sizes) < head[26] or end > len(data):
            raise TruncatedError(f"{name}: ends inside an ogg page; the file is truncated, get it again")
        page = data[at : at + 22] + bytes(4) + data[at + 26 : end]
        if not head.startswith(b"OggS") or page_checksum(page) != int.from_bytes(head[22:26], "little"):
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


def page_checksum(page: bytes) -> int:
    """Checksum of a page of ogg whose own checksum is 0.

    It is the CRC-32 of 0x04c11db7, highest bit first: zlib's CRC of reversed bytes, without its inversions.
    """
    reversed_crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reversed_crc:032b}"[::-1], 2)
