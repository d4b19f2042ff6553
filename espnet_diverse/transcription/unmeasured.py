"""mp3 files that do not tell how long they are, such as parts of a broadcast.

Of a file libsndfile takes the bit rate of the first frame for that of all and stops where the file would then end; with
a variable bit rate that can be half-way. Through a pipe it reads to the real end.
"""

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import soundfile

from espnet_diverse.errors import DataError

_TELL_LENGTH = (b"Xing", b"Info", b"VBRI")
_BLOCK = 1 << 18


def is_unmeasured(path: Path) -> bool:
    """Whether the file is an mp3 (MPEG audio, layer III) whose first frame does not tell the number of frames."""
    with path.open("rb") as file:
        head = file.read(10)
        if head[:3] == b"ID3" and len(head) == 10:  # a title and the like; its size in four times seven bits
            file.seek(sum(byte << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True)) + 10)
        else:
            file.seek(0)
        frame = file.read(256)
    begins = len(frame) > 2 and frame[0] == 0xFF and frame[1] & 0xE6 == 0xE2
    return begins and not any(mark in frame for mark in _TELL_LENGTH)


def write_measured(path: Path, name: str, wav: Path) -> None:
    """Write an mp3 as mono 16-bit wav of the same rate.

    Raises:
        DataError: It cannot be decoded; the message begins with `name`.
    """
    read_end, write_end = os.pipe()
    feeder = threading.Thread(target=_feed, args=(path, write_end), daemon=True)
    feeder.start()
    try:
        with (
            soundfile.SoundFile(read_end, closefd=False) as sound,
            soundfile.SoundFile(wav, "w", sound.samplerate, 1, "PCM_16", format="RF64") as mono,
        ):
            while len(block := sound.read(_BLOCK, dtype="float32", always_2d=True)):
                mono.write(block.mean(axis=1))
    except RuntimeError as error:
        raise DataError(f"{name}: cannot be decoded as mp3 ({error}); get it again") from error
    finally:
        os.close(read_end)  # which ends the feeder, too
        feeder.join()


def _feed(path: Path, write_end: int) -> None:
    with suppress(BrokenPipeError), os.fdopen(write_end, "wb") as sink, path.open("rb") as file:
        shutil.copyfileobj(file, sink)
