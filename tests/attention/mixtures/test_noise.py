"""Sampling noise: its size and its memory order."""

from pathlib import Path

import pytest
import torch
import yaml
from espnet2.torch_utils.initialize import initialize

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.mixtures.noise import LOUD, LearnedVariance, gaussian_noise, noise_diagnosis, noise_share
from espnet_diverse.scope import scope
from espnet_diverse.training.loop.diagnosis import findings


def test_a_learned_variance_starts_at_the_papers():
    module = LearnedVariance(16, 4)
    for _ in range(2):
        torch.testing.assert_close(module(torch.randn(2, 5, 16)), torch.full((2, 4, 5), 0.01))
        initialize(torch.nn.Sequential(module), "xavier_uniform")  # ESPnet's `init` does not change that


@pytest.mark.parametrize("std", [0.3, torch.tensor([[0.3], [0.3]])], ids=["number", "tensor"])
def test_noise_has_the_given_deviation_in_any_memory_order(std):
    torch.manual_seed(0)
    like = torch.zeros(40000, 2).t()
    noise = gaussian_noise(like, std)
    assert noise.shape == like.shape
    assert noise.mean().abs() < 0.01 and float(noise.std()) == pytest.approx(0.3, rel=0.02)


def test_the_share_of_noise_is_a_ratio_of_variances():
    x = torch.tensor([[1.0, -1.0], [3.0, -3.0]])  # of variance 5
    assert float(noise_share(0.5, x + 7)) == pytest.approx(0.05)
    assert float(noise_share(torch.tensor([[1.0], [3.0]]), x)) == pytest.approx(1)
    assert float(noise_share(1, x)) == pytest.approx(0.2)  # YAML reads `noise_std: 1` as an int
    assert torch.isfinite(noise_share(0.5, torch.zeros(4)))


@pytest.mark.parametrize(
    ("options", "tokens", "queries"),
    [
        ({}, 0.01, 0.01),
        ({"query_noise_scale": "clustered", "q_gmm_input": "scaled"}, 0.01, 0.04),
        ({"scale_s": 10.0}, 1.0, 1.0),
        ({"scale_s": 1, "noise_std": 1}, 1.0, 1.0),
        ({"scale_s": 10.0, "noise_times_s": False}, 0.01, 0.01),
    ],
)
def test_training_knows_how_loud_the_noise_is(options, tokens, queries):
    """On tokens and queries of variance 1 and heads of width 4."""
    torch.manual_seed(0)
    attention = build_attention("sdma", 16, 4, **options)
    torch.nn.init.eye_(attention.linear_q.weight)
    x = torch.randn(16, 100, 16)
    with scope() as shared:
        attention(x, x, x, None)
    stats = {name: float(value) for name, value in shared.stats().items()}
    assert stats["noise_tokens"] == pytest.approx(tokens, rel=0.05)
    assert stats["noise_queries"] == pytest.approx(queries / (1 + tokens), rel=0.05)
    warned = [finding for finding in findings(stats, [type(attention.core)]) if "noise" in finding]
    assert len(warned) == (tokens > 0.1) + (queries / (1 + tokens) > 0.1)


@pytest.mark.parametrize("core", ["sma", "sdma"])
@pytest.mark.parametrize("slope", [0.1, -0.1])
def test_learned_variances_of_large_tokens_have_finite_losses_and_gradients(core, slope):
    attention = build_attention(core, 8, 2, approx_var="learned")
    for name, parameter in attention.named_parameters():
        if "variance" in name:
            parameter.data += slope
    x = torch.full((1, 3, 8), 1e4).requires_grad_()
    with scope() as shared:
        out = attention(x, x, x, None)
    (out.square().mean() + shared.total_loss()).backward()
    assert all(torch.isfinite(value) for value in shared.losses().values())
    assert all(torch.isfinite(y.grad).all() for y in (x, *attention.parameters()) if y.grad is not None)


def shipped(*fragments):
    """Options of attention in the encoder of fragments in conf/, one after the other."""
    places = [Path(__file__).parents[3] / "conf" / f"{fragment}.yaml" for fragment in fragments]
    merged = {}
    for place in places:
        merged |= yaml.safe_load(place.read_text())["encoder_conf"]["attention"]
    return merged


SHIPPED = [
    {"core": "sma"},
    {"core": "sdma"},
    shipped("attention/sma"),
    shipped("attention/sdma"),
    shipped("attention/sdma", "losses/sdma_text"),
    shipped("attention/sdma", "losses/sdma_text_half"),
    {"core": "sdma", "preset": "paper"},
]


def noise_of(core, **options):
    """The statistics of noise on normalised tokens, with initial weights, and the warnings."""
    torch.manual_seed(0)
    attention = build_attention(core, 64, 4, **options)
    x = torch.nn.functional.layer_norm(torch.randn(8, 60, 64), (64,))
    with scope() as shared:
        attention(x, x, x, None)
    stats = {name: float(value) for name, value in shared.stats().items() if name.startswith("noise")}
    return stats, findings(stats, [type(attention.core)])


@pytest.mark.parametrize("options", SHIPPED, ids=str)
def test_no_default_is_warned_of_where_a_tenth_of_the_standard_deviation_would_be(options):
    stats, warnings = noise_of(**options)
    assert stats["noise_tokens"] ** 0.5 == pytest.approx(0.1, rel=0.01) and warnings == []
    assert 0.1**2 < stats.get("noise_queries", 0.02) < LOUD / 2


def test_the_released_noise_of_queries_is_warned_of():
    stats, warnings = noise_of("sdma", preset="released")
    assert stats["noise_tokens"] < LOUD < stats["noise_queries"]
    assert len(warnings) == 1 and warnings[0].startswith("the noise added to queries has ")


@pytest.mark.parametrize(("std", "warned"), [(0.31, False), (0.32, True)])
def test_a_tenth_is_of_the_variance(std, warned):
    x = torch.tensor([1.0, -1.0])
    found = float(noise_share(std, x))
    assert (found >= noise_diagnosis("tokens", "").threshold) == warned and found == pytest.approx(std**2)


def test_the_warning_names_the_share_and_the_remedy():
    said = noise_diagnosis("queries", "lower noise_std").sentence(0.97)
    assert said == "the noise added to queries has 97% of their variance; lower noise_std"
