import numpy as np
import pytest
import soxr

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import RATE, resample, resample_blocks


def hertz(samples: np.ndarray) -> float:
    """Frequency of the strongest component of samples (T,) at 16 kHz."""
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * RATE / len(samples))


@pytest.mark.parametrize("rate", [22050, 44100, 48000])
def test_other_rates(tmp_path, write_wav, rate):
    brought = resample(*read_audio(write_wav(tmp_path / "x.wav", seconds=1.0, rate=rate)))
    assert len(brought) == RATE
    assert hertz(brought) == 440


@pytest.mark.parametrize(("speed", "seconds", "pitch"), [(0.9, 1 / 0.9, 396), (1.0, 1.0, 440), (1.1, 1 / 1.1, 484)])
def test_speed_changes_length_and_pitch_as_in_kaldi(tone, speed, seconds, pitch):
    fast = resample(tone(1.0), RATE, speed)
    assert len(fast) == pytest.approx(seconds * RATE, abs=1)
    assert hertz(fast) == pytest.approx(pitch, abs=1)


@pytest.mark.parametrize("rate", [8000, 11_025, 14_400.0, 17_600.0, 44_100, 48_510.0])
@pytest.mark.parametrize("count", [0, 1, 1000, 100_000])
def test_a_whole_its_blocks_and_soxr_agree(rate, count):
    samples = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    whole = resample(samples, rate)
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(whole, soxr.resample(samples, rate, RATE))
    blocks = resample_blocks(np.array_split(samples, 7), rate)
    np.testing.assert_array_equal(np.concatenate([whole[:0], *blocks]), whole)


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
@pytest.mark.parametrize("target_rate", [8000, 22_050, 44_100])
def test_other_targets(rate, target_rate):
    samples = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    expected = soxr.resample(samples, rate, target_rate) if rate != target_rate else samples
    np.testing.assert_array_equal(resample(samples, rate, target_rate=target_rate), expected)
    blocks = resample_blocks(np.array_split(samples, 7), rate, target_rate)
    np.testing.assert_array_equal(np.concatenate(list(blocks)), expected)


def test_a_rate_that_is_the_target_passes_unchanged(tone):
    samples = tone(0.1)
    assert resample(samples, RATE) is resample(samples, 8000, target_rate=8000) is samples
    assert len(resample(samples, 8000, 1.25, 8000)) == pytest.approx(len(samples) / 1.25, abs=1)
