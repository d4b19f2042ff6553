"""Self-attentive pooling: vectors of the heads, padding, the Frobenius penalty, and what can be repelled."""

import numpy as np
import pytest
import torch
from references import repulsion as oracle

from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.scope import scope

LENGTHS = [5, 3]


@pytest.fixture
def pooling():
    torch.manual_seed(0)
    return SelfAttentivePooling(4, 6, heads=3, frobenius=0.5).double()


@pytest.fixture
def x():
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def mask(lengths):
    return (torch.arange(5) < torch.tensor(lengths).unsqueeze(1)).unsqueeze(1)


def by_loops(pooling, x):
    """Weights of each sample, by the loops of the oracle."""
    w, v = (each.weight.detach().numpy() for each in (pooling.linear_w, pooling.linear_v))
    found = [oracle.pooling_weights(each.numpy(), w, v, length) for each, length in zip(x, LENGTHS, strict=True)]
    return torch.from_numpy(np.stack(found))


def test_each_head_is_a_weighted_mean_of_the_positions(pooling, x):
    torch.testing.assert_close(pooling(x, mask(LENGTHS)), by_loops(pooling, x) @ x, rtol=1e-10, atol=1e-10)


def test_the_gradients_are_right(pooling, x):
    weights = dict(pooling.named_parameters())

    def pooled(x, *values):
        return torch.func.functional_call(pooling, dict(zip(weights, values, strict=True)), (x, mask(LENGTHS)))

    given = [each.detach().clone().requires_grad_() for each in (x, *weights.values())]
    assert len(given) == 3 and torch.autograd.gradcheck(pooled, given)


def test_a_sample_without_positions_is_0_with_finite_gradients(pooling, x):
    found = pooling(x.requires_grad_(), mask([5, 0]))
    found.square().sum().backward()
    assert not found[1].any() and x.grad.isfinite().all()


def test_padding_and_other_samples_change_nothing(pooling, x):
    together = pooling(x, mask(LENGTHS))
    torch.testing.assert_close(together[1:], pooling(x[1:, :3]))
    x[1, 3:] = 100.0
    assert torch.equal(pooling(x, mask(LENGTHS)), together)


def test_the_penalty_is_added_to_the_open_scope(pooling, x):
    with scope() as shared:
        pooling(x, mask(LENGTHS))
    expected = 0.5 * sum(oracle.frobenius(each.numpy()) for each in by_loops(pooling, x)) / 2
    assert shared.losses()["frobenius"].item() == pytest.approx(expected, rel=1e-5)
    pooling.penalty = 0.0
    with scope() as shared:
        pooling(x, mask(LENGTHS))
    assert shared.losses() == {}


def test_the_rows_of_the_queries_belong_to_the_heads(pooling):
    assert pooling.head_weights() == {"q": pooling.linear_v.weight}
    assert len(pooling.linear_v.weight) == pooling.pool == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 0}, "pooling of width 6 with 0 heads is not possible; give 1 or more of both"),
        ({"width": 0}, "pooling of width 0 with 3 heads is not possible"),
        ({"frobenius": -1.0}, "frobenius -1.0 is not possible; give a weight of 0 or more"),
    ],
)
def test_numbers_that_are_not_possible_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        SelfAttentivePooling(**{"size": 4, "width": 6, "heads": 3} | options)
