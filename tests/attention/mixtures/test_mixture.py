"""The first centroids, and the distance that each step of an optimizer moves them."""

import copy

import pytest
import torch
from espnet2.torch_utils.initialize import initialize

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.mixtures.mixture import Mixture
from espnet_diverse.scope import scope


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 9, 16, dtype=torch.double)


def make(**options):
    """An attention without noise; all have the same weights."""
    torch.manual_seed(1)
    return build_attention("sdma", 16, 4, noise_std=0.0, **options).double()


def test_xavier_starts_as_the_released_code_does():
    torch.manual_seed(0)
    log_prior, mean, log_var = (p.detach() for p in Mixture(8, 8, 64, init="xavier").components())
    assert float(mean.std()) == pytest.approx((2 / (8 * 64 + 8 * 64)) ** 0.5, rel=0.05)
    assert float(log_var.std()) == pytest.approx((2 / (8 * 64 + 8 * 64)) ** 0.5, rel=0.05)
    assert float(log_prior.std()) == pytest.approx((2 / (8 + 8)) ** 0.5, rel=0.2)


@pytest.mark.parametrize("init", ["xavier_uniform", "normal"])
@pytest.mark.parametrize("own", ["normal", "xavier"])
def test_espnets_initialisation_does_not_change_how_clusters_start(own, init):
    torch.manual_seed(0)
    mixture = Mixture(8, 8, 64, own, learning_rate_scale=10.0)
    before = [float(p.detach().std()) for p in mixture.components()]
    initialize(mixture, init)
    assert [float(p.detach().std()) for p in mixture.components()] == pytest.approx(before, rel=0.3)


def gradients(module, x):
    with scope() as shared:
        (module(x, x, x, None).square().sum() + shared.total_loss()).backward()
    return {name: p.grad for name, p in module.named_parameters()}


def test_gradients_of_the_centroids_alone_are_magnified_in_a_copy_too(x):
    plain = gradients(make(), x)
    magnified = gradients(copy.deepcopy(make(centroid_gradient_scale=5.0)), x)
    for name, gradient in plain.items():
        torch.testing.assert_close(magnified[name], gradient * (5 if name.endswith("mean") else 1))


def trained(x, **options):
    """Centroids before and after five steps of Adam."""
    module = make(**options)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, eps=1e-16)
    before = [m.components()[1].detach().clone() for m in (module.core.token_mixture, module.core.query_mixture)]
    for _ in range(5):
        optimizer.zero_grad()
        gradients(module, x)
        optimizer.step()
    after = [m.components()[1].detach() for m in (module.core.token_mixture, module.core.query_mixture)]
    return before, after


def test_magnified_gradients_are_nothing_to_adam(x):
    for plain, magnified in zip(trained(x)[1], trained(x, centroid_gradient_scale=10.0)[1], strict=True):
        torch.testing.assert_close(plain, magnified, rtol=0, atol=1e-7)


def test_the_learning_rate_scale_makes_adams_steps_larger(x):
    (plain, moved), (start, far) = trained(x), trained(x, centroid_learning_rate_scale=8.0)
    for a, b, c, d in zip(plain, moved, start, far, strict=True):
        torch.testing.assert_close(a, c)  # both start at the same centroids
        assert float(((d - c).abs() / (b - a).abs()).median()) == pytest.approx(8, rel=0.2)
