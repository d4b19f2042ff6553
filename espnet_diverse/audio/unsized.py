"""Audio with missing or wrong length headers, and with several recordings in one file, which libsndfile cuts short.

- Concatenated mp3 and ogg: libsndfile reads the first recording. Here each one is decoded by itself.
- mp3 without a length header, such as a part of a broadcast: libsndfile estimates the length from the bit rate of the
  first frame and stops there. Through a pipe it decodes to the real end.
- flac that was written to a pipe, so that its length could not be filled in: only soundfile's seeks in it fail.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import soundfile

from espnet_diverse.audio.concatenated import Part, file_parts
from espnet_diverse.audio.libsndfile import decoded_blocks
from espnet_diverse.audio.resampling import RATE, resample_blocks
from espnet_diverse.errors import DataError

_FLAC, _OGG = b"fLaC", b"OggS"
_BLOCK = 1 << 18
_SECONDS = 10  # seconds of a block
_LEAST_SHARE = 0.9  # of the frames that an mp3 header counts; fewer are there only if the file is truncated


class Unsized(NamedTuple):
    """A file that libsndfile cuts short: what it is, such as "concatenated mp3", and the recordings in it."""

    title: str
    parts: list[Part]


def find_unsized(path: Path) -> Unsized | None:
    """Detect a file that libsndfile would cut short; None if it reads the whole file or refuses it with an error."""
    head = _head(path)
    if head[:4] == _FLAC:
        length = int.from_bytes(head[21:26], "big") & (1 << 36) - 1  # in samples
        return None if length or len(head) < 26 else Unsized("flac without its length", [Part(0, path.stat().st_size)])
    parts, is_mp3 = file_parts(path), head[:4] != _OGG
    if parts[1:]:
        return Unsized("concatenated mp3" if is_mp3 else "concatenated ogg", parts)
    return Unsized("mp3 without its length", parts) if parts and is_mp3 and not parts[0].frames_in_header else None


def write_joined(
    path: Path, parts: Sequence[Part], name: str | Path, wav: Path, rate: int = RATE, at_most: float | None = None
) -> None:
    """Decode the parts of a file and write them as one mono float wav (230 MB an hour at 16 kHz).

    Args:
        path: Path of the file.
        parts: Recordings in the file, from `find_unsized`.
        name: Name of the file in error messages.
        wav: Path of the wav file to write.
        rate: Sampling rate of the wav file in Hz.
        at_most: Seconds to write; all where not given.

    Raises:
        DataError: A part is truncated or cannot be decoded.
    """
    for number, part in enumerate(parts, start=1):
        if part.frames_found < _LEAST_SHARE * part.frames_in_header:
            what = f"part {number} of {len(parts)} holds {part.frames_found} of {part.frames_in_header} frames"
            raise DataError(f"{name}: {what}; the file is truncated, get it again")
    try:
        with soundfile.SoundFile(wav, "w", rate, 1, "FLOAT", format="RF64") as mono:
            for part in parts:
                with _opened(path, part) as sound:
                    blocks = decoded_blocks(sound, name, largest=_SECONDS * sound.samplerate)
                    for block in resample_blocks(blocks, sound.samplerate, rate):
                        mono.write(block)
                        if at_most is not None and mono.frames > at_most * rate:
                            return
    except RuntimeError as error:
        raise DataError(f"{name}: cannot be decoded ({error}); the file is damaged") from error


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(26)


class _Unseekable(soundfile.SoundFile):
    """A file that is read in order only: soundfile would seek to the position after each block."""

    def seekable(self) -> bool:
        return False


@contextmanager
def _opened(path: Path, part: Part) -> Iterator[soundfile.SoundFile]:
    """A part of a file, through a pipe; flac directly, for libsndfile does not read it from a pipe."""
    if _head(path)[:4] == _FLAC:
        with _Unseekable(path) as sound:
            yield sound
        return
    read_end, write_end = os.pipe()
    feeder = threading.Thread(target=_feed, args=(path, part, write_end), daemon=True)
    feeder.start()
    try:
        with soundfile.SoundFile(read_end, closefd=False) as sound:
            yield sound
    finally:
        os.close(read_end)  # which ends the feeder, too
        feeder.join()


def _feed(path: Path, part: Part, write_end: int) -> None:
    with suppress(BrokenPipeError), os.fdopen(write_end, "wb") as sink, path.open("rb") as file:
        file.seek(part.start)
        left = part.end - part.start
        while left and (block := file.read(min(left, _BLOCK))):
            sink.write(block)
            left -= len(block)
