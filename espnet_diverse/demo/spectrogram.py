"""Spectrogram of a segment of speech, as numbers for the page to draw above the maps of the heads."""

import base64
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_WINDOW, _HOP = 0.025, 0.01  # seconds
_RANGE = 60.0  # decibels from 0 to the loudest point
_QUIET = -40.0  # decibels of the loudest point at least, so that silence stays at 0
_MOST_COLUMNS, _ROWS = 400, 64  # the screen of the page has not many more dots for it


def spectrogram(samples: NDArray, rate: int, start: float) -> dict[str, Any]:
    """Compute the levels of a segment by frequency and time.

    Args:
        samples: Samples (L,) of the segment, float32.
        rate: Samples a second.
        start: Begin of the segment in the recording, in seconds.

    Returns:
        `start` and `step` of the columns in seconds, the greatest frequency `hertz`, the numbers of `rows` and
        `columns`, and `values`: rows of bytes in base64, the greatest frequency first, of which 255 is the loudest
        point and 0 is 60 dB below it.
    """
    size = 2 ** round(np.log2(_WINDOW * rate))
    hop = max(round(_HOP * rate), -(-len(samples) // _MOST_COLUMNS))
    sound = torch.nn.functional.pad(torch.from_numpy(samples), (size // 2, size // 2))
    power = torch.stft(sound, size, hop, window=torch.hann_window(size), center=False, return_complex=True).abs() ** 2
    power = torch.nn.functional.adaptive_max_pool1d(power.T, _ROWS).T.flip(0)
    levels = 10 * power.clamp(min=1e-10).log10()
    shares = ((levels - levels.max().clamp(min=_QUIET)) / _RANGE + 1).clamp(0, 1)
    return {
        "start": start - hop / rate / 2,
        "step": hop / rate,
        "hertz": rate / 2,
        "rows": _ROWS,
        "columns": shares.size(1),
        "values": base64.b64encode((255 * shares).round().byte().numpy().tobytes()).decode(),
    }
