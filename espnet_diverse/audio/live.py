"""Audio that is read while it is produced: raw samples from standard input or a FIFO, or a file as if it were live.

Raw samples are PCM, 16-bit little-endian, mono, as `ffmpeg -f s16le -ac 1`, `arecord -f S16_LE -t raw` and `sox -t raw`
write it. They have no header, so their rate must be given. A block is read when it is requested; the writer waits, and
memory does not grow if recognition is slower than speech.
"""

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import RATE, resample_blocks
from espnet_diverse.audio.sources import STDIN, open_audio
from espnet_diverse.errors import ConfigError, DataError

BLOCK_SECONDS = 0.16
_HEADERS = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3", b".snd", b"FORM", b"caff")


@contextmanager
def open_live(
    source: str,
    pcm_rate: int | None = None,
    target_rate: int = RATE,
    seconds: float = BLOCK_SECONDS,
    real_time: bool = False,
) -> Iterator[Iterator[NDArray]]:
    """Open a source of live audio.

    Args:
        source: "-" for raw samples on standard input; the path of a FIFO with raw samples; or an audio file.
        pcm_rate: Sampling rate of raw samples in Hz; by default `target_rate`.
        target_rate: Sampling rate in Hz of the blocks.
        seconds: Length of a block.
        real_time: Whether a file is read no faster than it is spoken.

    Yields:
        Blocks (L,) float32 at `target_rate` of about `seconds`, as they come; a truncated file is read as far as it
        goes, with a warning.

    Raises:
        ConfigError: A rate is given for a file, or is impossible, or `real_time` is set for a live source.
        DataError: The source cannot be read; or, while it is read, it holds no sample, ends within a sample, or has the
            header of a file.
    """
    if pcm_rate is not None and not RATES[0] <= pcm_rate <= RATES[1]:
        raise ConfigError(f"pcm_rate {pcm_rate} is not allowed; give {RATES[0]} to {RATES[1]} Hz")
    if not _is_raw(source):
        if pcm_rate is not None:
            raise ConfigError(f"pcm_rate {pcm_rate} is for raw samples, and {source} is a file; leave it out")
        with open_audio(source, target_rate=target_rate, complete=False) as audio:
            blocks = audio.blocks(seconds)
            yield _paced(blocks, target_rate) if real_time else blocks
        return
    if real_time:
        raise ConfigError(f"real_time is for files, and {source} is live; leave it out")
    rate = pcm_rate or target_rate
    if source == STDIN:
        yield resample_blocks(_pcm_blocks(sys.stdin.fileno(), source, rate, seconds), rate, target_rate)
        return
    with Path(source).open("rb", buffering=0) as fifo:
        yield resample_blocks(_pcm_blocks(fifo.fileno(), source, rate, seconds), rate, target_rate)


def _is_raw(source: str) -> bool:
    try:
        return source == STDIN or stat.S_ISFIFO(Path(source).stat().st_mode)
    except OSError:  # reported when it is opened as a file
        return False


def _pcm_blocks(descriptor: int, name: str, rate: int, seconds: float) -> Iterator[NDArray]:
    wanted, read = 2 * max(1, round(seconds * rate)), 0
    while part := _read(descriptor, wanted):
        if not read and part.startswith(_HEADERS):
            reason = f"begins with {part[:4].decode('latin-1')!r}, the header of a file"
            raise DataError(f"{name}: {reason}; give raw samples, as from ffmpeg -f s16le -ac 1")
        read += len(part)
        yield np.frombuffer(part[: len(part) // 2 * 2], "<i2").astype(np.float32) / np.float32(2**15)
    if not read:
        raise DataError(f"{name}: was closed before a sample came; give 16-bit samples")
    if read % 2:
        raise DataError(f"{name}: {read} bytes are an odd number; samples must have 16 bits, little-endian, mono")


def _read(descriptor: int, wanted: int) -> bytes:
    """Read `wanted` bytes, fewer at the end of the stream; without Python's buffer, which would wait for more."""
    parts: list[bytes] = []
    while wanted and (part := os.read(descriptor, wanted)):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _paced(blocks: Iterator[NDArray], rate: int) -> Iterator[NDArray]:
    """Yield each block when its last sample would have been spoken."""
    start, samples = time.monotonic(), 0
    for block in blocks:
        samples += len(block)
        time.sleep(max(0.0, start + samples / rate - time.monotonic()))
        yield block
