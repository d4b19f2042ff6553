"""Linear maps of selected heads against one map after another."""

import pytest
import torch
import torch.nn.functional as F

from espnet_diverse.functional.pool_linear import pool_linear, pool_products

POOL, TIME, SIZE, WIDTH = 5, 3, 4, 2
PICKS = torch.tensor([[0, 3], [3, 1], [0, 3]])  # no sample has heads 2 and 4, all have head 3
each_form = pytest.mark.parametrize("joined", [True, False], ids=["a product a head", "a product a sample"])


def tensors(dtype=torch.double):
    torch.manual_seed(0)
    shapes = (len(PICKS), TIME, SIZE), (POOL, WIDTH, SIZE), (POOL, WIDTH)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


def one_by_one(x, weight, bias):
    of_samples = [[F.linear(y, weight[p], bias[p]) for p in heads] for y, heads in zip(x, PICKS.tolist(), strict=True)]
    return torch.stack([torch.stack(of_sample) for of_sample in of_samples])


@each_form
def test_results_and_gradients_match_one_map_after_another(joined):
    inputs = tensors()
    found, expected = pool_linear(*inputs, pool_products(PICKS, POOL, joined)), one_by_one(*inputs)
    assert found.shape == (len(PICKS), PICKS.size(1), TIME, WIDTH)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found).transpose(1, 2).contiguous().transpose(1, 2)  # as attention returns it
    gradients, others = (torch.autograd.grad(y, inputs, upstream) for y in (found, expected))
    torch.testing.assert_close(gradients, others)
    assert not gradients[1][[2, 4]].any() and not gradients[2][[2, 4]].any()


@each_form
def test_first_and_second_gradients_equal_finite_differences(joined):
    products = pool_products(PICKS, POOL, joined)
    assert torch.autograd.gradcheck(lambda *t: pool_linear(*t, products), tensors())
    assert torch.autograd.gradgradcheck(lambda *t: pool_linear(*t, products), tensors())


@each_form
def test_in_autocast_it_is_a_product_in_half_precision(joined):
    inputs = tensors(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = pool_linear(*inputs, pool_products(PICKS, POOL, joined)), one_by_one(*inputs)
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    for gradient, other in zip(*(torch.autograd.grad(y.sum(), inputs) for y in (found, expected)), strict=True):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, other, atol=0.05, rtol=0.02)


def test_a_product_has_all_samples_of_a_head_or_one():
    joined, single = (pool_products(PICKS, POOL, joined) for joined in (True, False))
    assert [(head, samples.tolist(), places.tolist()) for head, samples, places in joined] == [
        (0, [0, 2], [0, 4]),
        (1, [1], [3]),
        (3, [0, 1, 2], [1, 2, 5]),
    ]
    assert single == [(0, 0, 0), (0, 2, 4), (1, 1, 3), (3, 0, 1), (3, 1, 2), (3, 2, 5)]
