import base64

import numpy as np
import pytest

from espnet_diverse.demo.spectrogram import spectrogram


def levels(found):
    flat = np.frombuffer(base64.b64decode(found["values"]), np.uint8)
    return flat.reshape(found["rows"], found["columns"])


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
@pytest.mark.parametrize("hertz", [300, 1000, 3500])
def test_a_tone_is_in_the_row_of_its_frequency(rate, hertz):
    tone = np.sin(2 * np.pi * hertz * np.arange(rate) / rate).astype(np.float32)
    found = spectrogram(tone, rate, 0.0)
    row = found["rows"] * (1 - hertz / found["hertz"])
    assert found["hertz"] == rate / 2
    np.testing.assert_allclose(levels(found)[:, 5:-5].argmax(axis=0) + 0.5, row, atol=1.1)
    assert levels(found).max() == 255 and np.median(levels(found)) == 0


@pytest.mark.parametrize("seconds", [0.3, 3.0, 30.0, 300.0])
def test_a_click_is_in_the_column_of_its_time(seconds):
    samples = np.zeros(round(16_000 * seconds), np.float32)
    samples[round(0.7 * len(samples))] = 1.0
    found = spectrogram(samples, 16_000, 12.0)
    column = int(levels(found).sum(axis=0).argmax())
    begin = found["start"] + column * found["step"]
    assert begin - 0.016 <= 12 + 0.7 * seconds <= begin + found["step"] + 0.016
    assert found["columns"] <= 401 and found["start"] + found["columns"] * found["step"] >= 12 + seconds


@pytest.mark.parametrize("samples", [np.zeros(1, np.float32), np.zeros(4000, np.float32)])
def test_silence_is_zero(samples):
    assert not levels(spectrogram(samples, 16_000, 0.0)).any()
