"""Projections with selected heads equal those of each sample with its own rows."""

import pytest
import torch
from torch import nn

from espnet_diverse.attention.head_gather import AllHeads, SelectedHeads

POOL, WIDTH, SIZE = 5, 2, 6
PICKS = torch.tensor([[0, 3], [4, 1]])
MEMBERS = [1, 0, 1]


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(SIZE, POOL * WIDTH)


def of_heads(linear, x, heads):
    """The outputs of some heads of a pool, side by side."""
    return linear(x).unflatten(-1, (POOL, WIDTH))[..., heads, :].flatten(-2)


@pytest.mark.parametrize("name", ["project", "project_values"])
def test_each_sample_is_projected_by_its_own_heads(linear, name):
    x = torch.randn(3, 4, SIZE)
    projected = getattr(SelectedHeads(PICKS, POOL, None, MEMBERS), name)(linear, x)
    for sample, group in enumerate(MEMBERS):
        torch.testing.assert_close(projected[sample], of_heads(linear, x[sample], PICKS[group]))
    alike = getattr(SelectedHeads(PICKS[:1], POOL, None, [0, 0, 0]), name)(linear, x)
    torch.testing.assert_close(alike, of_heads(linear, x, PICKS[0]))


def test_straight_through_weights_act_on_values_alone(linear):
    x, weights = torch.randn(3, 4, SIZE), torch.ones(2, 2, requires_grad=True)
    selected = SelectedHeads(PICKS, POOL, weights, MEMBERS)
    values = selected.project_values(linear, x)
    torch.testing.assert_close(values, SelectedHeads(PICKS, POOL, None, MEMBERS).project_values(linear, x))
    by_head = torch.autograd.grad(values[..., :WIDTH].sum(), weights)[0]
    assert (by_head[:, 0] != 0).all() and (by_head[:, 1] == 0).all()
    assert not torch.autograd.grad(selected.project(linear, x).sum(), weights, allow_unused=True)[0]


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
    torch.testing.assert_close(pruned(x), of_heads(linear, x, PICKS[0]))


def test_all_heads_are_the_whole_projection(linear):
    x = torch.randn(3, 4, SIZE)
    assert torch.equal(AllHeads().project(linear, x), linear(x)) and AllHeads().alike
