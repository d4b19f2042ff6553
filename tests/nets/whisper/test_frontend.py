"""The encoder of Whisper as a frontend: its features are the encoder's, without the silence, in batches and alone."""

import pytest
import torch

from espnet_diverse.errors import DataError
from espnet_diverse.nets.whisper.frontend import EncodedMelFrontend

LENGTHS = torch.tensor([40_000, 16_001, 23_456])


@pytest.fixture
def frontend():
    torch.manual_seed(0)
    made = EncodedMelFrontend(n_mels=20, output_size=16, attention_heads=2, linear_units=32, num_blocks=2, pad=0.5)
    return made.eval()


@pytest.fixture
def samples():
    return torch.randn(3, 40_000, generator=torch.Generator().manual_seed(1)) * 0.1


def test_features_are_the_encoders_without_silence(frontend, samples):
    features, lengths = frontend(samples, LENGTHS)
    assert features.shape == (3, 125, 16) == (3, 125, frontend.output_size())
    assert lengths.tolist() == [125, 51, 74]  # begun frames of 320 samples
    whole, frames, _ = frontend.encoder(*frontend.mel(samples, LENGTHS))
    assert (frames - lengths).tolist() == [25, 25, 25]
    torch.testing.assert_close(features, whole[:, :125])


def test_a_recording_alone_has_the_features_of_a_batch(frontend, samples):
    features, lengths = frontend(samples, LENGTHS)
    for row, together, length, count in zip(samples, features, LENGTHS, lengths.tolist(), strict=True):
        alone, (frames,) = frontend(row[None, :length], length[None])
        assert frames == count
        torch.testing.assert_close(alone[0, :frames], together[:count], atol=1e-5, rtol=0)


def test_a_long_recording_is_refused(frontend):
    with pytest.raises(DataError, match="30.1 s are more than the 30 s that Whisper reads"):
        frontend(torch.zeros(1, 481_600), torch.tensor([481_600]))
