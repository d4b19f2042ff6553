"""Triangular filters at equal distances on the mel scale, as in Slaney's Auditory Toolbox (1998) and in librosa.

With the mel scale m(f), band b of B has its edges and its peak where m is at the steps b, b + 2 and b + 1 of B + 1 from
m(fmin) to m(fmax). A filter has the area 1 Hz. On Slaney's scale a mel is 200/3 Hz below 1 kHz, where the scale is
linear; above, 27 mels are a factor of 6.4. On HTK's, m(f) = 2595 log10(1 + f / 700).
"""

import warnings

import numpy as np

_HZ, _BEND, _STEP = 200 / 3, 1000.0, np.log(6.4) / 27  # of Slaney's scale


def mel_filters(*, sr: float, n_fft: int, n_mels: int, fmin: float, fmax: float, htk: bool = False) -> np.ndarray:
    """Compute the filters (n_mels, 1 + n_fft // 2), float32, bitwise equal to `librosa.filters.mel`.

    Args:
        sr: Sampling rate.
        n_fft: Number of samples of a frame.
        n_mels: Number of filters.
        fmin: Lower edge of the first filter in Hz.
        fmax: Upper edge of the last filter in Hz.
        htk: Whether the scale is HTK's instead of Slaney's.
    """
    to_mel, to_hertz = (_htk_mel, _htk_hertz) if htk else (_slaney_mel, _slaney_hertz)
    edges = to_hertz(np.linspace(to_mel(fmin), to_mel(fmax), n_mels + 2))
    above = np.subtract.outer(edges, np.fft.rfftfreq(n_fft, 1 / sr))  # of each edge above each bin
    widths = np.diff(edges)[:, None]
    filters = np.maximum(0, np.minimum(-above[:-2] / widths[:-1], above[2:] / widths[1:])).astype(np.float32)
    filters *= (2 / (edges[2:] - edges[:-2]))[:, None]
    if not np.all((edges[:-2] == 0) | (filters.max(axis=1) > 0)):
        warnings.warn(f"{n_mels} mel filters are too many for frames of {n_fft} samples: some are empty", stacklevel=2)
    return filters


def _slaney_mel(hertz: float) -> float:
    mel = hertz / _HZ
    return _BEND / _HZ + np.log(hertz / _BEND) / _STEP if hertz >= _BEND else mel


def _slaney_hertz(mels: np.ndarray) -> np.ndarray:
    bend = _BEND / _HZ
    return np.where(mels >= bend, _BEND * np.exp(_STEP * (mels - bend)), _HZ * mels)


def _htk_mel(hertz: float) -> float:
    return 2595.0 * np.log10(1.0 + hertz / 700.0)


def _htk_hertz(mels: np.ndarray) -> np.ndarray:
    return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
