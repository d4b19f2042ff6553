"""Projections with selected heads equal those of each sample with its own rows."""

import pytest
import torch
from torch import nn

from espnet_diverse.attention.selection.head_gather import _LONG, AllHeads, SelectedHeads, split_heads

POOL, WIDTH, SIZE = 5, 2, 6
PICKS = torch.tensor([[0, 3], [4, 1]])
MEMBERS = [1, 0, 1]


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(SIZE, POOL * WIDTH)


def of_heads(linear, x, heads):
    """The outputs of some heads of a pool, (..., T, SIZE) -> (..., H, T, WIDTH)."""
    return linear(x).unflatten(-1, (POOL, WIDTH))[..., heads, :].transpose(-3, -2)


@pytest.mark.parametrize("time", [4, _LONG], ids=["short", "long"])
def test_each_sample_is_projected_by_its_own_heads(linear, time):
    other = nn.Linear(SIZE, POOL * WIDTH)
    x, y = torch.randn(3, time, SIZE), torch.randn(3, 2, SIZE)
    linears, inputs = (linear, other, linear), (x, x, y)
    projected = SelectedHeads(PICKS, POOL, None, MEMBERS).project(linears, inputs, values=True)
    alike = SelectedHeads(PICKS[:1], POOL, None, [0, 0, 0]).project(linears, inputs, values=True)
    for found, of_one, z, one in zip(projected, alike, inputs, linears, strict=True):
        expected = torch.stack([of_heads(one, sample, PICKS[g]) for sample, g in zip(z, MEMBERS, strict=True)])
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(of_one, of_heads(one, z, PICKS[0]))


@pytest.mark.parametrize("groups", [2, 1], ids=["mixed", "alike"])
def test_straight_through_weights_act_on_values_alone(linear, groups):
    x, weights = torch.randn(3, 4, SIZE), torch.ones(groups, 2, requires_grad=True)
    members = MEMBERS if groups == 2 else [0, 0, 0]
    selected = SelectedHeads(PICKS[:groups], POOL, weights, members)
    keys, values = selected.project((linear, linear), (x, x), values=True)
    torch.testing.assert_close(values, keys)
    by_head = torch.autograd.grad(values[:, 0].sum(), weights)[0]
    expected = torch.zeros(groups).index_add(0, torch.tensor(members), keys[:, 0].sum((1, 2)))
    torch.testing.assert_close(by_head, torch.stack([expected, torch.zeros(groups)], 1))
    (queries,) = selected.project((linear,), (x,))
    assert not torch.autograd.grad((keys + queries).sum(), weights, allow_unused=True)[0]


def test_positions_and_rows(linear):
    x, parameter = torch.randn(1, 4, SIZE), torch.randn(POOL, WIDTH)
    linear.bias = None
    mixed, alike = SelectedHeads(PICKS, POOL, None, MEMBERS), SelectedHeads(PICKS[:1], POOL, None, [0])
    expected = torch.cat([of_heads(linear, x, PICKS[group]) for group in MEMBERS])
    torch.testing.assert_close(mixed.project_positions(linear, x), expected)
    torch.testing.assert_close(alike.project_positions(linear, x), of_heads(linear, x, PICKS[0]))
    assert torch.equal(mixed.rows(parameter), parameter[PICKS[MEMBERS]])
    assert torch.equal(alike.rows(parameter), parameter[PICKS[:1]])


def test_pruned_rows_are_a_linear_map(linear):
    x = torch.randn(3, 4, SIZE)
    pruned = SelectedHeads(PICKS[:1], POOL, None, [0, 0, 0]).pruned(linear)
    assert (pruned.in_features, pruned.out_features) == (SIZE, 2 * WIDTH)
    torch.testing.assert_close(split_heads(pruned(x), 2, WIDTH), of_heads(linear, x, PICKS[0]))


def test_all_heads_are_the_whole_projection(linear):
    x = torch.randn(3, 4, SIZE)
    (projected,) = AllHeads(POOL).project((linear,), (x,))
    assert torch.equal(projected, split_heads(linear(x), POOL, WIDTH)) and AllHeads(POOL).alike
