"""Resampling to 16 kHz, of whole recordings and of blocks; both give the same samples."""

from collections.abc import Iterable, Iterator

import numpy as np
import soxr
from numpy.typing import NDArray

RATE = 16_000
"""The rate of prepared audio and of what models read, in Hz."""


def resample(samples: NDArray, rate: float, speed: float = 1.0) -> NDArray:
    """Resample a whole recording, with speed perturbation as in Kaldi (Ko et al., Interspeech 2015).

    The signal is taken as recorded at `speed` times its rate. That changes tempo and pitch, and divides its length by
    `speed`.

    Args:
        samples: Samples (T,) float32.
        rate: Sampling rate of `samples` in Hz.
        speed: Speed factor.

    Returns:
        Samples at `RATE`, (about T * RATE / (rate * speed),) float32.
    """
    if rate * speed == RATE:
        return samples
    return np.concatenate([np.zeros(0, np.float32), *resample_blocks([samples], rate * speed)])


def resample_blocks(blocks: Iterable[NDArray], rate: float) -> Iterator[NDArray]:
    """Resample blocks (L,) float32 from `rate` Hz to `RATE`, as they come; joined they equal `resample` of all."""
    if rate == RATE:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate, RATE, 1, dtype="float32")
    for block in blocks:
        resampled = stream.resample_chunk(block)
        if len(resampled):
            yield resampled
    resampled = stream.resample_chunk(np.zeros(0, np.float32), last=True)
    if len(resampled):
        yield resampled
