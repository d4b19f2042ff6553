"""Resampling of whole recordings and of blocks; both give the same samples."""

from collections.abc import Iterable, Iterator

import numpy as np
import soxr
from numpy.typing import NDArray

from espnet_diverse.audio import RATE


def resample(samples: NDArray, rate: float, speed: float = 1.0, target_rate: int = RATE) -> NDArray:
    """Resample a whole recording, with speed perturbation as in Kaldi (Ko et al., Interspeech 2015).

    The signal is treated as if recorded at `speed` times its rate. That changes tempo and pitch, and divides its length
    by `speed`.

    Args:
        samples: Samples (T,) float32.
        rate: Sampling rate of `samples` in Hz.
        speed: Speed factor.
        target_rate: Sampling rate of the result in Hz.

    Returns:
        Samples at `target_rate`, (about T * target_rate / (rate * speed),) float32.
    """
    if rate * speed == target_rate:
        return samples
    return np.concatenate([np.zeros(0, np.float32), *resample_blocks([samples], rate * speed, target_rate)])


def resample_blocks(blocks: Iterable[NDArray], rate: float, target_rate: int = RATE) -> Iterator[NDArray]:
    """Resample blocks (L,) float32 from `rate` to `target_rate`, as they come; joined they equal `resample`."""
    if rate == target_rate:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate, target_rate, 1, dtype="float32")
    for block in blocks:
        resampled = stream.resample_chunk(block)
        if len(resampled):
            yield resampled
    resampled = stream.resample_chunk(np.zeros(0, np.float32), last=True)
    if len(resampled):
        yield resampled
