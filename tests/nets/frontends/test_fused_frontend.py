"""Several frontends side by side."""

import pytest
import torch
from espnet2.asr.frontend.fused import FusedFrontends as Theirs
from references.speech_encoders import write_encoder

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.fused_frontend import FusedFrontends

NARROW = {"frontend_type": "default", "n_mels": 16, "n_fft": 128, "hop_length": 128}
WIDE = {"frontend_type": "default", "n_mels": 12, "n_fft": 256, "hop_length": 64}
LENGTHS = torch.tensor([16000, 9000])


@pytest.fixture
def samples():
    return torch.randn(2, 16000, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def encoder(tmp_path):
    return {"frontend_type": "huggingface", "model": str(write_encoder(tmp_path / "x"))}


def test_with_espnets_frontends_it_is_espnets(samples):
    torch.manual_seed(0)
    theirs = Theirs([NARROW, WIDE], proj_dim=8)
    torch.manual_seed(0)
    ours = FusedFrontends([NARROW, WIDE], proj_dim=8)
    assert all(torch.equal(value, ours.state_dict()[name]) for name, value in theirs.state_dict().items())
    (x, lengths), (expected, expected_lengths) = ours(samples, LENGTHS), theirs(samples, LENGTHS)
    assert torch.equal(x, expected) and torch.equal(lengths, expected_lengths)
    assert ours.hop_length == 64 and ours.least_samples == 129


@pytest.mark.parametrize("others", [[], [NARROW]], ids=len)
def test_features_of_a_pretrained_encoder_are_projected_and_frozen(others, encoder, samples):
    frontend = FusedFrontends([*others, encoder], proj_dim=8).train()
    x, lengths = frontend(samples, LENGTHS)
    (*_, pretrained), (*_, projection) = frontend.frontends, frontend.projection_layers
    factor = {0: 1, 1: 5}[len(others)]  # 320 samples are 5 times the 64 that both hops have in common
    assert frontend.hop_length * factor == 320 and frontend.output_size() == x.size(-1) == 8 * (len(others) + 1)
    expected = projection(pretrained(samples, LENGTHS)[0])
    expected = expected.reshape(2, expected.size(1) * factor, 8)
    assert torch.equal(x[..., -8:], expected[:, : x.size(1)])
    assert 16000 / frontend.hop_length - 2 * factor < lengths[0] <= x.size(1) > lengths[1]
    x.sum().backward()
    assert projection.weight.grad is not None
    assert not any(parameter.requires_grad for parameter in pretrained.parameters())


def test_the_greatest_number_of_samples_is_needed(encoder):
    frontend = FusedFrontends([NARROW, encoder], proj_dim=8)
    assert frontend.least_samples == frontend.frontends[1].least_samples == 325


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"frontends": None}, "frontend_conf.frontends is empty; give a list of frontends of default and huggingface"),
        ({"frontends": []}, "frontend_conf.frontends is empty"),
        ({"frontends": ["default"]}, "frontend_conf.frontends must be a list of mappings, .* but is .'default'"),
        ({"frontends": [NARROW, {"frontend_type": "s3prl"}]}, "frontend_conf.frontends has frontend_type 's3prl'"),
        ({"frontends": [{"n_mels": 3}]}, "frontend_conf.frontends has frontend_type 'None'"),
        ({"frontends": [NARROW], "align_method": "x"}, "frontend_conf.align_method 'x' is unknown"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(ConfigError, match=f"^{said}"):
        FusedFrontends(**options)


@pytest.mark.parametrize("option", [{"multilayer_feature": True}, {"freeze_weights": False}], ids=str)
def test_options_that_no_gradient_reaches_are_refused(option, encoder):
    with pytest.raises(ConfigError, match="is not allowed in a fused frontend, whose frontends are not trained"):
        FusedFrontends([encoder | option])
