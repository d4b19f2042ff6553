"""Variational autoencoders: equality with torch.distributions, loops and numerical integrals; gradcheck."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from espnet_diverse.functional.variational import (
    active_units,
    annealing,
    divergence_by_unit,
    free_bits,
    importance_weighted_bound,
    log_importance,
)


@pytest.fixture
def gaussians() -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances of 5 sentences and 3 units."""
    torch.manual_seed(0)
    return torch.randn(2, 5, 3, dtype=torch.float64).unbind()


def close(x, y):
    torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)


def test_the_divergence_matches_torch(gaussians):
    mean, log_var = gaussians
    posterior, prior = Normal(mean, (log_var / 2).exp()), Normal(torch.zeros_like(mean), torch.ones_like(mean))
    close(divergence_by_unit(mean, log_var), kl_divergence(posterior, prior))


def test_free_bits_match_a_loop(gaussians):
    divergence = divergence_by_unit(*gaussians)
    least = divergence.mean(0).median().item()
    expected = sum(max(least, sum(row[unit] for row in divergence.tolist()) / 5) for unit in range(3))
    assert free_bits(divergence, least).item() == pytest.approx(expected, abs=1e-12)
    close(free_bits(divergence, 0.0), divergence.sum(1).mean())


def test_a_unit_below_its_free_bits_has_no_gradient():
    divergence = torch.tensor([[0.1, 2.0], [0.1, 0.0]], dtype=torch.float64, requires_grad=True)
    free_bits(divergence, 0.5).backward()
    assert divergence.grad.tolist() == [[0, 0.5], [0, 0.5]]


@pytest.mark.parametrize(("cycles", "rising"), [(1, 1.0), (4, 0.5)])
def test_the_schedule_matches_a_loop(cycles, rising):
    for done in range(0, 130, 3):
        cycle = 100 / cycles
        expected = 1.0 if done >= 100 else min(1.0, (done % cycle) / cycle / rising)
        found = annealing(torch.tensor(float(done)), 100, cycles, rising)
        assert found.item() == pytest.approx(expected, abs=1e-6), done


def test_active_units_have_a_varying_mean():
    means = torch.tensor([[0.0, 1.0, 5.0], [0.19, -1.0, 5.0]])  # variances 0.009, 1 and 0
    assert active_units(means).tolist() == [False, True, False]
    assert active_units(means[:1]).tolist() == [False] * 3


def test_log_importance_is_the_ratio_of_densities(gaussians):
    mean, log_var = gaussians
    noise = torch.randn_like(mean)
    z = mean + (log_var / 2).exp() * noise
    prior, posterior = Normal(torch.zeros_like(mean), 1.0), Normal(mean, (log_var / 2).exp())
    close(log_importance(mean, log_var, noise), (prior.log_prob(z) - posterior.log_prob(z)).sum(-1))


def test_the_bounds_of_a_linear_model_are_below_its_likelihood():
    """x = z + e with e ~ N(0, 1): p(x) is N(0, 2), and the posterior N(x / 2, 1 / 2); here another one is taken."""
    torch.manual_seed(1)
    x, mean, log_var = torch.tensor(1.3), torch.full((4000, 64, 1), 0.2), torch.zeros(())
    noise = torch.randn_like(mean)
    weights = Normal((mean + noise).squeeze(-1), 1.0).log_prob(x) + log_importance(mean, log_var.expand(1), noise)
    exact = Normal(0.0, math.sqrt(2)).log_prob(x).item()
    bounds = [importance_weighted_bound(weights[:, :number].T).mean().item() for number in (1, 8, 64)]
    assert bounds == sorted(bounds) and bounds[-1] < exact + 0.005
    assert bounds[0] < exact - 0.1 and bounds[-1] == pytest.approx(exact, abs=0.02)
    single = Normal(mean[0, 0], 1.0)
    prior = Normal(torch.zeros(1), torch.ones(1))
    expected = -0.5 * math.log(2 * math.pi) - 0.5 * ((1.3 - 0.2) ** 2 + 1) - kl_divergence(single, prior).item()
    assert bounds[0] == pytest.approx(expected, abs=0.1)


def test_gradients(gaussians):
    mean, log_var = (each.clone().requires_grad_() for each in gaussians)
    noise = torch.randn_like(gaussians[0])
    assert torch.autograd.gradcheck(divergence_by_unit, (mean, log_var))
    assert torch.autograd.gradcheck(lambda m, v: free_bits(divergence_by_unit(m, v), 0.7), (mean, log_var))
    assert torch.autograd.gradcheck(
        lambda m, v: importance_weighted_bound(log_importance(m, v, noise)), (mean, log_var)
    )
