"""Samples brought to 16 kHz as they come, in blocks."""

from collections.abc import Iterable, Iterator

import numpy as np
import soxr
from numpy.typing import NDArray

from espnet_diverse.audio.files import RATE


def resampled(blocks: Iterable[NDArray], rate: int) -> Iterator[NDArray]:
    """Bring blocks (L,) from `rate` Hz to `RATE`; together they equal what `corpora.audio.resample` makes of all."""
    if rate == RATE:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate, RATE, 1, dtype="float32")
    for block in blocks:
        brought = stream.resample_chunk(block)
        if len(brought):
            yield brought
    brought = stream.resample_chunk(np.zeros(0, np.float32), last=True)
    if len(brought):
        yield brought
