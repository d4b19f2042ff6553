"""Mel filters are librosa's, bit by bit."""

import numpy as np
import pytest

from espnet_diverse.audio.mel_filters import mel_filters

SETTINGS = [
    {"sr": 16000, "n_fft": 512, "n_mels": 80, "fmin": 0, "fmax": 8000.0},
    {"sr": 8000, "n_fft": 256, "n_mels": 20, "fmin": 20, "fmax": 3800},
    {"sr": 44100, "n_fft": 2048, "n_mels": 128, "fmin": 1200.5, "fmax": 20000},
    {"sr": 22050, "n_fft": 1023, "n_mels": 40, "fmin": 0.0, "fmax": 900.0},
    {"sr": 16000, "n_fft": 400, "n_mels": 1, "fmin": 80, "fmax": 1000},
]


@pytest.mark.parametrize("htk", [False, True])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: f"{one['sr']}-{one['n_mels']}")
def test_filters_match_librosa(setting, htk):
    import librosa

    ours, theirs = mel_filters(**setting, htk=htk), librosa.filters.mel(**setting, htk=htk)
    assert ours.dtype == theirs.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)


def test_too_many_filters_are_warned_of():
    with pytest.warns(UserWarning, match="200 mel filters are too many for frames of 256 samples: some are empty"):
        mel_filters(sr=16000, n_fft=256, n_mels=200, fmin=0, fmax=8000)
