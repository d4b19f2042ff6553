"""The semantic mask and its mixing, against loops."""

import math

import pytest
import torch
from references import sdma as oracle

from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.semantic import gamma_schedule, semantic_mask

MASKS = {"none": None, "causal": causal(5), "padding": torch.tensor([True, True, False, True, False])}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_semantic_mask_equals_loops(draw, mask):
    p_query, p_key = draw.posterior(2, 5, 3), draw.posterior(2, 5, 3)
    semantic = semantic_mask(p_query, p_key, mask)
    seen = None if mask is None else mask.expand(5, 5).numpy()
    for h in range(2):
        expected = oracle.semantic_mask(p_query[h].detach().numpy(), p_key[h].detach().numpy(), seen)
        torch.testing.assert_close(semantic[h], torch.tensor(expected))
    torch.testing.assert_close(semantic.sum(-1), torch.ones(2, 5, dtype=torch.float64))


def test_query_without_keys_gets_zeros_and_finite_gradients(draw):
    p_query, p_key = draw.posterior(2, 3), draw.posterior(4, 3)
    mask = torch.tensor([[True] * 4, [False] * 4])
    semantic = semantic_mask(p_query, p_key, mask)
    assert semantic[1].abs().max() == 0
    gradients = torch.autograd.grad(semantic.square().sum(), (p_query, p_key))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_query_of_a_cluster_that_no_key_has_attends_as_without_mask(dtype):
    p_query = torch.tensor([[1.0, 0.0]], dtype=dtype, requires_grad=True)
    p_key = torch.tensor([[0.0, 1.0]] * 3, dtype=dtype, requires_grad=True)
    semantic = semantic_mask(p_query, p_key)
    torch.testing.assert_close(semantic, torch.full((1, 3), 1 / 3, dtype=dtype))
    gradients = torch.autograd.grad((semantic**2).sum(), (p_query, p_key))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_gradients(draw):
    mask = causal(4)
    assert torch.autograd.gradcheck(
        lambda a, b: semantic_mask(a, b, mask), (draw.posterior(2, 4, 3), draw.posterior(2, 4, 3))
    )


@pytest.mark.parametrize("step", [0, 1, 1386, 4605, 10**9])
def test_gamma_grows_from_zero_to_its_bound(step):
    expected = oracle.gamma(step, 0.9, 5e-4)
    assert gamma_schedule(torch.tensor(float(step), dtype=torch.float64)).item() == pytest.approx(expected, abs=1e-15)


def test_gamma_at_its_ends_and_of_other_settings():
    begin, half, end = gamma_schedule(torch.tensor([0.0, 1386.0, 1e6])).tolist()
    assert begin == 0 and half == pytest.approx(0.5, abs=1e-3) and end == pytest.approx(0.9)
    assert gamma_schedule(torch.tensor(1e6), nu=0.0).item() == 0
    assert gamma_schedule(torch.tensor(100.0), nu=1.0, rate=0.01).item() == pytest.approx(1 - math.exp(-1))
