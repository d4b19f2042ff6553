"""Features of Whisper: transformers' for audio padded to 30 seconds, and the same frames with less silence."""

import pytest
import torch
import transformers

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.whisper.features import WhisperFrontend

LENGTHS = torch.tensor([40_000, 16_001, 23_456])


@pytest.fixture
def samples():
    return torch.randn(3, 40_000, generator=torch.Generator().manual_seed(1)) * 0.1


@pytest.mark.parametrize("mels", [80, 128])
def test_features_of_30_seconds_are_transformers(samples, mels):
    prepare = transformers.WhisperFeatureExtractor(feature_size=mels)
    rows = [row[:length].numpy() for row, length in zip(samples, LENGTHS, strict=True)]
    expected = prepare(rows, sampling_rate=16_000, return_tensors="pt").input_features.transpose(1, 2)
    features, lengths = WhisperFrontend(n_mels=mels, pad="full")(samples, LENGTHS)
    assert features.shape == expected.shape and lengths.tolist() == [3000] * 3
    torch.testing.assert_close(features, expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize("pad", [0.1, 1, 5.0])
def test_less_silence_gives_the_first_frames(samples, pad):
    whole, _ = WhisperFrontend(pad="full")(samples, LENGTHS)
    features, lengths = WhisperFrontend(pad=pad)(samples, LENGTHS)
    for row, expected, length, given in zip(features, whole, lengths.tolist(), LENGTHS.tolist(), strict=True):
        assert length % 2 == 0 and 0 <= length * 160 - given - pad * 16_000 < 320
        torch.testing.assert_close(row[:length], expected[:length], atol=1e-6, rtol=0)
        assert not row[length:].any()


def test_a_recording_alone_has_the_features_of_a_batch(samples):
    frontend = WhisperFrontend(pad=0.1)
    features, lengths = frontend(samples, LENGTHS)
    for row, together, length, frames in zip(samples, features, LENGTHS, lengths.tolist(), strict=True):
        alone, count = frontend(row[None, :length], length[None])
        assert count.tolist() == [frames]
        torch.testing.assert_close(alone[0], together[:frames], atol=1e-6, rtol=0)


def test_silence_ends_after_30_seconds_and_longer_audio_is_refused():
    frontend = WhisperFrontend()
    _, lengths = frontend(torch.zeros(1, 28 * 16_000), torch.tensor([28 * 16_000]))
    assert lengths.tolist() == [3000]
    with pytest.raises(DataError, match="30.1 s"):
        frontend(torch.zeros(1, 481_600), torch.tensor([481_600]))


def test_without_silence_a_recording_does_not_depend_on_its_batch(samples):
    frontend = WhisperFrontend(pad=0)
    features, lengths = frontend(samples, LENGTHS)
    assert lengths.tolist() == (LENGTHS // 160).tolist()
    for row, count in enumerate(LENGTHS.tolist()):
        alone, (frames,) = frontend(samples[row : row + 1, :count], LENGTHS[row : row + 1])
        torch.testing.assert_close(features[row, :frames], alone[0], atol=1e-5, rtol=0)
        spectrum = torch.stft(samples[row, :count], 400, 160, window=torch.hann_window(400), return_complex=True)
        logs = (spectrum[:, :-1].abs().square().T @ frontend.filters).clamp(min=1e-10).log10()
        torch.testing.assert_close(alone[0], (logs.maximum(logs.max() - 8) + 4) / 4, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", [{"fs": 8000}, {"n_mels": 0}, {"pad": -1}, {"pad": 31}, {"pad": "all"}])
def test_options_that_are_not_allowed(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        WhisperFrontend(**options)
