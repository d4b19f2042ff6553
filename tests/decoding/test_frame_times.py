"""Times of frames against subsampling that is differentiated."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from espnet_diverse.decoding.frame_times import FrameTimes, frame_times, known_frame_times
from espnet_diverse.errors import ModelError
from espnet_diverse.nets.encoder import DiverseTransformerEncoder


@pytest.mark.parametrize(
    "layer", ["conv2d", "conv2d1", "conv2d2", "conv2d6", "conv2d8", "conv1d2", "conv1d4_glu", "linear"]
)
def test_frame_times_are_centres_of_receptive_fields(layer):
    torch.manual_seed(0)
    encoder = DiverseTransformerEncoder(80, output_size=16, attention_heads=2, num_blocks=1, input_layer=layer).eval()
    model = SimpleNamespace(encoder=encoder, frontend=SimpleNamespace(hop_length=128))
    features = torch.randn(1, 120, 80, requires_grad=True)
    embedded = encoder.embed(features) if layer == "linear" else encoder.embed(features, None)[0]
    first, step = frame_times(model, 16_000)
    assert frame_times(model, 8000) == pytest.approx((2 * first, 2 * step))
    for frame in (4, 7):
        (gradient,) = torch.autograd.grad(embedded[0, frame].square().sum(), features, retain_graph=True)
        seen = gradient[0].abs().sum(1).nonzero().flatten()
        assert first + frame * step == pytest.approx(float(seen[0] + seen[-1]) / 2 * 128 / 16_000)


def test_boundaries_lie_within_the_seconds_of_their_frames():
    times = FrameTimes(0.02, 0.04)
    assert [times.boundary(frame) for frame in (0, 1, 2)] == pytest.approx([0.0, 0.04, 0.08])
    assert [times.boundary_within(frame, 1.0, 1.1) for frame in range(4)] == pytest.approx([1.0, 1.04, 1.08, 1.1])
    assert times.boundary_within(-1, 1.0, 1.1) == 1.0


def test_a_frontend_without_a_hop_is_refused():
    model = SimpleNamespace(encoder=nn.Module(), frontend=nn.Identity())
    with pytest.raises(ModelError, match="frontend Identity has no hop_length; turn word_timestamps off"):
        frame_times(model, 16_000)


def test_frames_without_times_are_no_error_where_they_are_only_shown():
    model = SimpleNamespace(encoder=SimpleNamespace(embed=nn.Identity()), frontend=SimpleNamespace(hop_length=160))
    assert known_frame_times(model, 16_000) == (0.0, 0.01)
    assert known_frame_times(model, None) is None
    assert known_frame_times(SimpleNamespace(prompt=object(), **vars(model)), 16_000) is None
    assert known_frame_times(SimpleNamespace(encoder=model.encoder, frontend=nn.Identity()), 16_000) is None


def test_an_encoder_that_subsamples_elsewhere_is_refused():
    model = SimpleNamespace(encoder=nn.LSTM(2, 2), frontend=SimpleNamespace(hop_length=160))
    with pytest.raises(ModelError, match="encoder LSTM has no known frame rate; turn word_timestamps off"):
        frame_times(model, 16_000)
