"""ESPnet's subsampling in chunks; gated subsampling: a naive loop, padding, lengths, every encoder that takes it."""

import pytest
import torch
from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS, subsampling
from espnet_diverse.nets.subsampling import ChunkedConvSubsampling, GatedConvSubsampling
from espnet_diverse.upstream.layers import Conv2dSubsampling, TooShortUttError

SMALL = {"output_size": 16, "attention_heads": 2, "num_blocks": 1, "input_layer": "conv1d4_glu", "conv_channels": 12}
ENCODER_OPTIONS = {
    "diverse_transformer": {"linear_units": 24},
    "diverse_conformer": {"linear_units": 24, "cnn_module_kernel": 3, "rel_pos_type": "latest"},
    "diverse_e_branchformer": {"cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3, "rel_pos_type": "latest"},
}


def naive(x, convolution):
    """Stride 2, kernel 5 and a gated linear unit, frame by frame: x (T, in) -> (ceil(T / 2), out)."""
    frames = []
    for centre in range(0, len(x), 2):
        total = convolution.bias.clone()
        for tap in range(5):
            if 0 <= centre + tap - 2 < len(x):
                total = total + convolution.weight[:, :, tap] @ x[centre + tap - 2]
        value, gate = total.chunk(2)
        frames.append(value * gate.sigmoid())
    return torch.stack(frames)


@pytest.mark.parametrize("length", [7, 8, 9, 10])
def test_equals_a_naive_loop(length):
    torch.manual_seed(0)
    net = GatedConvSubsampling(3, 4, 6, nn.Identity()).double()
    x = torch.randn(1, length, 3, dtype=torch.double)
    out, mask = net(x, torch.ones(1, 1, length, dtype=torch.bool))
    torch.testing.assert_close(out[0], naive(naive(x[0], net.conv[0]), net.conv[1]))
    assert out.size(1) == mask.size(2) == -(-length // 4)
    assert torch.equal(net(x, None)[0], out) and net(x, None)[1] is None


@pytest.mark.parametrize("length", [13, 14, 15, 16])
def test_padding_changes_nothing(length):
    torch.manual_seed(0)
    net = ENCODERS["diverse_transformer"](20, **SMALL, linear_units=24).double().eval()
    speech = torch.randn(2, 40, 20, dtype=torch.double)
    batch, olens, _ = net(speech, torch.tensor([40, length]))
    alone, (size,), _ = net(speech[1:, :length], torch.tensor([length]))
    assert olens.tolist() == [10, 4] and size == 4
    torch.testing.assert_close(batch[1, :4], alone[0])


@pytest.mark.parametrize("name", ENCODER_OPTIONS)
def test_every_offline_encoder_takes_it(name):
    net = ENCODERS[name](20, **SMALL, **ENCODER_OPTIONS[name])
    out, olens, _ = net(torch.randn(2, 41, 20), torch.tensor([41, 30]))
    assert out.shape == (2, 11, 16) and olens.tolist() == [11, 8]
    shapes = {key: tuple(value.shape) for key, value in net.state_dict().items() if key.startswith("embed.conv")}
    assert shapes["embed.conv.0.weight"] == (12, 20, 5) and shapes["embed.conv.1.weight"] == (32, 6, 5)
    with pytest.raises(TooShortUttError):
        net(torch.randn(1, 6, 20), torch.tensor([6]))


def test_unsupported_encoder_and_invalid_channels_are_refused():
    options = SMALL | {"linear_units": 24, "block_size": 8, "hop_size": 4, "look_ahead": 2}
    with pytest.raises(ConfigError, match="conv1d4_glu does not fit DiverseContextualBlock.*; choose conv2d"):
        ENCODERS["diverse_contextual_block_transformer"](20, **options)
    for channels, said in [
        (7, "conv_channels is 7; a gated linear unit needs an even number"),
        (0, "conv_channels must be at least 2, but is 0"),
        (2.0, "conv_channels must be a whole number, but is 2.0"),
        ("a", "conv_channels must be a whole number, but is 'a'"),
    ]:
        with pytest.raises(ConfigError, match=said):
            ENCODERS["diverse_transformer"](20, **SMALL | {"conv_channels": channels})


@pytest.mark.parametrize("length", [7, 22, 23, 24, 26, 27, 28, 45, 90])
@pytest.mark.parametrize("masked", [True, False], ids=["mask", "no mask"])
def test_chunks_of_espnets_convolutions_change_nothing(length, masked, monkeypatch):
    monkeypatch.setattr(subsampling, "_CHUNK", 5)
    torch.manual_seed(0)
    whole = Conv2dSubsampling(20, 8, 0.0).double().eval()
    chunked, x = ChunkedConvSubsampling(whole).eval(), torch.randn(2, length, 20, dtype=torch.double)
    mask = torch.arange(length) < torch.tensor([[[length]], [[max(7, length - 9)]]]) if masked else None
    expected, expected_mask = whole(x, mask)
    with torch.no_grad():
        out, out_mask = chunked(x, mask)
    torch.testing.assert_close(out, expected.detach())
    assert torch.equal(out_mask, expected_mask) if masked else out_mask is None
    assert torch.equal(chunked(x, mask)[0], expected)  # with gradients it is ESPnet's computation
    assert chunked.state_dict().keys() == whole.state_dict().keys()


def test_the_convolutions_of_long_inputs_go_by_chunks(monkeypatch):
    monkeypatch.setattr(subsampling, "_CHUNK", 5)
    net = ENCODERS["diverse_conformer"](20, **SMALL | {"input_layer": "conv2d"}, **ENCODER_OPTIONS["diverse_conformer"])
    seen = []
    net.embed.conv[0].register_forward_hook(lambda _, given, __: seen.append(given[0].size(2)))
    with torch.no_grad():
        _, (frames,), _ = net.eval()(torch.randn(1, 90, 20), torch.tensor([90]))
    assert frames == 21 and seen == [23, 23, 23, 23, 10]


@pytest.mark.parametrize("start", [0, 3])
def test_a_part_equals_the_frames_of_the_whole(start):
    torch.manual_seed(0)
    net = ENCODERS["diverse_transformer"](20, output_size=16, attention_heads=2, num_blocks=1, linear_units=24).eval()
    x = torch.randn(2, 43, 20)
    with torch.inference_mode():
        whole, _ = net.embed(x, None)
        torch.testing.assert_close(net.embed.part(x[:, 4 * start :], start), whole[:, start:])
        assert net.embed.part(x[:, :6], 5).shape == (2, 0, 16)
