"""The encoder of Whisper obeys the laws of encoders; its outputs are compared with transformers' in packing."""

import pytest
import torch
from references.whisper import HEADS

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.whisper.encoder import DiverseMelEncoder, sinusoids

SIZES = {"output_size": 16, "attention_heads": HEADS["attention_heads"], "linear_units": 32, "num_blocks": 2}
LENGTHS = torch.tensor([40, 22, 31])


def build(**options):
    torch.manual_seed(0)
    return DiverseMelEncoder(20, **SIZES, **options).eval()


@pytest.mark.parametrize("attention", [None, {"core": "sdma"}, {"core": "window", "window": 5}])
def test_a_sample_does_not_depend_on_the_others(attention):
    encoder, features = build(attention=attention), torch.randn(3, 40, 20)
    output, lengths, _ = encoder(features, LENGTHS)
    assert output.shape == (3, 20, 16) and lengths.tolist() == [20, 11, 16]
    for row, length, together, frames in zip(features, LENGTHS, output, lengths.tolist(), strict=True):
        alone, _, _ = encoder(row[None, :length], length[None])
        torch.testing.assert_close(alone[0], together[:frames], atol=1e-5, rtol=0)


def test_sinusoids_are_those_of_the_paper():
    found = sinusoids(7, 8)
    for position in range(7):
        for channel in range(4):
            angle = torch.tensor(position / 10_000 ** (channel / 3))
            torch.testing.assert_close(found[position, [channel, channel + 4]], torch.stack([angle.sin(), angle.cos()]))


def test_too_many_frames_and_own_positions_are_refused():
    with pytest.raises(DataError, match="42 frames"):
        build(max_positions=20)(torch.randn(1, 42, 20), torch.tensor([42]))
    with pytest.raises(ConfigError, match="position rotary"):
        build(attention={"core": "softmax", "position": "rotary"})
