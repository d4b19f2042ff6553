"""Sampling noise: its size and its memory order."""

import pytest
import torch

from espnet_diverse.attention.noise import LearnedVariance, gaussian_noise


def test_a_learned_variance_starts_at_the_papers():
    variance = LearnedVariance(16, 4)(torch.randn(2, 5, 16))
    torch.testing.assert_close(variance, torch.full((2, 4, 5), 0.01))


@pytest.mark.parametrize("std", [0.3, torch.tensor([[0.3], [0.3]])], ids=["number", "tensor"])
def test_noise_has_the_given_deviation_in_any_memory_order(std):
    torch.manual_seed(0)
    like = torch.zeros(40000, 2).t()
    noise = gaussian_noise(like, std)
    assert noise.shape == like.shape
    assert noise.mean().abs() < 0.01 and float(noise.std()) == pytest.approx(0.3, rel=0.02)
