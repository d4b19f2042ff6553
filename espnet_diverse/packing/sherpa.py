"""Metadata and tokens by which sherpa-onnx decodes with an exported graph.

sherpa-onnx computes features by itself. Those of its kind `dolphin` are nearest to ESPnet's: logarithms of powers in 80
of librosa's mel bands up to 8 kHz, every 160 samples at 16 kHz. Version 2.0.1, whose features were measured, differs in
three points:

- samples are filtered by 1 - 0.97/z before, which is a constant for a narrow band: (1) its mean gain over the band;
- the Hann window has 512 samples, also where the model was trained with fewer: (2) powers grow with the length;
- windows are centred half a hop later.

    mean[b] = log(sum_k m[k, b] |1 - 0.97 exp(-i w_k)|^2 / sum_k m[k, b])    (1)
              + log(512 / win_length)                                        (2)

sherpa-onnx subtracts `mean` from its features, which takes the first two away.
"""

from collections.abc import Sequence

import numpy as np
from espnet2.asr.frontend.default import DefaultFrontend
from numpy.typing import NDArray
from torch import nn

from espnet_diverse.decoding.frame_times import frame_times

_RATE, _HOP, _WINDOW, _BANDS = 16_000, 160, 512, 80
_STFT = {"n_fft": _WINDOW, "hop_length": _HOP, "window": "hann", "center": True, "normalized": False}
_MEL = {"sr": _RATE, "n_fft": _WINDOW, "n_mels": _BANDS, "fmin": 0, "fmax": _RATE / 2, "htk": False}
_SHORTEST = 400  # of the windows that are near enough
_EMPHASIS = 0.97
_SPACE = "<space>"


def metadata(model: nn.Module, tokens: Sequence[str]) -> dict[str, str]:
    """Metadata that sherpa-onnx reads; none for a model with features that it cannot compute.

    Args:
        model: The model.
        tokens: Its tokens.
    """
    if not _has_features(model.frontend):
        return {}
    mean = _mean(model.frontend)
    return {
        "vocab_size": str(len(tokens)),
        "subsampling_factor": str(round(frame_times(model, _RATE).step * _RATE / _HOP)),
        "mean": ",".join(f"{value:.6f}" for value in mean),
        "invstd": ",".join(["1"] * _BANDS),
    }


def tokens_text(tokens: Sequence[str]) -> str:
    """The content of tokens.txt: a token and its index per line; a line without a token is a space."""
    return "".join(f"{'' if token == _SPACE else token} {index}\n" for index, token in enumerate(tokens))


def _mean(frontend: DefaultFrontend) -> NDArray:
    """Surplus of sherpa-onnx's features over ESPnet's, (bands,)."""
    bands = frontend.logmel.melmat.cpu().numpy()  # (frequencies, bands)
    gains = np.abs(1 - _EMPHASIS * np.exp(-1j * np.linspace(0, np.pi, len(bands)))) ** 2
    return np.log(gains @ bands / bands.sum(0)) + np.log(_WINDOW / frontend.stft.win_length)


def _has_features(frontend: nn.Module | None) -> bool:
    if type(frontend) is not DefaultFrontend or frontend.stft is None:
        return False
    of_stft = {name: getattr(frontend.stft, name) for name in _STFT}
    is_near = _SHORTEST <= frontend.stft.win_length <= _WINDOW
    return of_stft == _STFT and frontend.logmel.mel_options == _MEL and is_near
