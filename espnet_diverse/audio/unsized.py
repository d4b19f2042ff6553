"""Files that libsndfile does not read to their end, or not at all, for it takes their length for another.

- mp3 and ogg with several recordings one after the other: it reads the first. Each part is read by itself.
- mp3 that does not tell how long it is, such as a part of a broadcast: libsndfile takes the bit rate of the first frame
  for that of all and stops where the file would then end. Through a pipe it reads to the real end.
- flac that was written to a pipe, where the length could not be filled in: only soundfile's jumps in it fail.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import soundfile
from numpy.typing import NDArray

from espnet_diverse.audio.concatenated import Part, file_parts
from espnet_diverse.audio.files import RATE
from espnet_diverse.audio.resampling import resampled
from espnet_diverse.errors import DataError

_FLAC = b"fLaC"
_BLOCK = 1 << 18
_LEAST = 0.9  # of the frames that an mp3 tells; fewer are there only if it is torn


def unread_parts(path: Path) -> list[Part]:
    """The parts of a file that must be read one by one; none where libsndfile reads it to its end."""
    head = _head(path)
    if head[:4] == _FLAC:
        length = int.from_bytes(head[21:26]) & (1 << 36) - 1  # in samples
        return [] if length or len(head) < 26 else [Part(0, path.stat().st_size)]
    parts = file_parts(path)
    unmeasured_mp3 = parts and head[:4] != b"OggS" and not parts[0].told
    return parts if parts[1:] or unmeasured_mp3 else []


def write_whole(path: Path, parts: Sequence[Part], name: str, wav: Path) -> None:
    """Write the parts of a file as one 16 kHz mono 16-bit wav.

    Raises:
        DataError: One of them is torn or cannot be decoded; the message begins with `name`.
    """
    for number, part in enumerate(parts, start=1):
        if part.found < _LEAST * part.told:
            what = f"part {number} of {len(parts)} holds {part.found} of {part.told} frames"
            raise DataError(f"{name}: {what}; the file is torn, get it again")
    try:
        with soundfile.SoundFile(wav, "w", RATE, 1, "PCM_16", format="RF64") as mono:
            for part in parts:
                with _opened(path, part) as sound:
                    for block in resampled(_mono(sound), sound.samplerate):
                        mono.write(block)
    except RuntimeError as error:
        raise DataError(f"{name}: cannot be decoded ({error}); get it again") from error


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(26)


class _Onward(soundfile.SoundFile):
    """A file that is only read on: soundfile would seek to where it stands after each block."""

    def seekable(self) -> bool:
        return False


@contextmanager
def _opened(path: Path, part: Part) -> Iterator[soundfile.SoundFile]:
    """A part of a file, through a pipe, in which libsndfile reads no flac."""
    if _head(path)[:4] == _FLAC:
        with _Onward(path) as sound:
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


def _mono(sound: soundfile.SoundFile) -> Iterator[NDArray]:
    while len(block := sound.read(_BLOCK, dtype="float32", always_2d=True)):
        yield block.mean(axis=1)
