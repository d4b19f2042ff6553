"""SDMA's dense attention: properties of its weights. Loops and `blockwise` are compared in test_blockwise.py."""

import math

import pytest
import torch

from espnet_diverse.functional.mixed_attention import (
    coefficients_of,
    dense,
    excluded,
    huge,
    mixed_weights,
    score_scale,
    with_ones,
)

B, H, TQ, TK, D, E, C = 2, 3, 5, 6, 4, 2, 3


@pytest.fixture
def tensors(draw):
    return draw.normal(B, H, TQ, D), draw.normal(B, H, TK, D), draw.posterior(B, H, TQ, C), draw.posterior(B, H, TK, C)


@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
def test_rows_sum_to_one_over_the_allowed_keys_alone(tensors, gamma):
    mask = torch.ones(TQ, TK, dtype=torch.bool).tril()
    weights = mixed_weights(*tensors, gamma, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, TQ, dtype=torch.float64))
    assert (weights >= 0).all() and weights.masked_select(~mask).abs().max() == 0


def test_a_query_without_keys_has_no_weights(tensors):
    mask = torch.ones(TQ, TK, dtype=torch.bool)
    mask[2] = False
    weights = mixed_weights(*tensors, 0.6, mask)
    assert weights[..., 2, :].abs().max() == 0 and weights[..., 1, :].min() > 0


def test_without_mixing_the_weights_are_softmax(tensors, draw):
    q, k, *_ = tensors
    bias = draw.normal(H, TQ, TK)
    expected = (0.7 * q @ k.transpose(-2, -1) + bias).softmax(-1)
    torch.testing.assert_close(mixed_weights(*tensors, 0.0, scale=0.7, bias=bias), expected)


def test_full_mixing_attends_within_the_cluster(tensors):
    """With certain clusters and gamma 1, a query attends to the keys of its own cluster alone."""
    q, k, *_ = tensors
    queries, keys = torch.arange(TQ) % C, torch.arange(TK) % C
    p_query, p_key = torch.eye(C, dtype=torch.float64)[queries], torch.eye(C, dtype=torch.float64)[keys]
    weights = mixed_weights(q, k, p_query, p_key, 1.0)
    same = queries[:, None] == keys
    assert weights.masked_select(~same).abs().max() < 1e-12
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, TQ, dtype=torch.float64))


def test_the_context_is_the_weighted_mean_of_the_values(tensors, draw):
    q, k, p_query, p_key = tensors
    v, bias = draw.normal(B, H, TK, E), draw.normal(H, TQ, TK)
    for options in ((), (torch.ones(TQ, TK, dtype=torch.bool).tril(), 0.7, bias)):
        context, weights = dense(q, k, v, p_query, p_key, 0.6, *options)
        assert (context.shape, weights.shape) == ((B, H, TQ, E), (B, H, TQ, TK))
        assert torch.equal(weights, mixed_weights(q, k, p_query, p_key, 0.6, *options))
        torch.testing.assert_close(context, torch.einsum("bhqk,bhke->bhqe", weights, v))


def test_a_mask_is_bool(tensors):
    with pytest.raises(ValueError, match="^the mask is torch.int64; give bool, True = may attend$"):
        mixed_weights(*tensors, 0.6, torch.ones(TQ, TK, dtype=torch.int64))
    assert excluded(torch.tensor([True, False])).tolist() == [False, True]


def test_parts_of_the_equations(draw):
    assert score_scale(torch.zeros(3, 16), None) == 0.25 and score_scale(torch.zeros(3, 16), 2.0) == 2.0
    for dtype in (torch.float32, torch.float64):
        assert math.isfinite(2 * huge(torch.zeros(1, dtype=dtype)))
    p = draw.posterior(1, 4, C).transpose(-2, -1)
    ones = torch.ones(1, 1, 4, dtype=torch.float64)
    found = coefficients_of(p, 2 * ones, 0.25, 3 * ones)
    torch.testing.assert_close(found, torch.cat([0.125 * p, 0.25 * ones], -2))
    assert torch.equal(with_ones(p), torch.cat([p, ones], -2))
