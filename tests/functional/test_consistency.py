"""Consistency against loops over positions and classes, and its gradients."""

import math

import numpy as np
import pytest
import torch

from espnet_diverse.functional import label_smoothing
from espnet_diverse.functional.consistency import consistency

VALID = torch.tensor([[True, True, True, True], [True, True, False, False], [False] * 4])


def log_softmax(row):
    return row - math.log(sum(math.exp(x) for x in row))


def loops(first, second, valid):
    """The mean of both divergences, summed over the valid positions of each sequence."""
    sums = np.zeros(len(first))
    for b, t in np.argwhere(valid):
        log_p, log_q = log_softmax(first[b, t]), log_softmax(second[b, t])
        for a, c in zip(log_p, log_q, strict=True):
            sums[b] += (math.exp(a) * (a - c) + math.exp(c) * (c - a)) / 2
    return sums


@pytest.mark.parametrize("constant_targets", [False, True])
def test_equals_loops(draw, constant_targets):
    first, second = draw.normal(3, 4, 5), draw.normal(3, 4, 5)
    expected = loops(first.detach().numpy(), second.detach().numpy(), VALID.numpy())
    found = consistency(torch.cat([first, second]), VALID, constant_targets)
    assert expected[0] > expected[1] > expected[2] == 0
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-12, atol=1e-12)


def test_the_gradient_matches_both_divergences(draw):
    torch.autograd.gradcheck(lambda scores: consistency(scores, VALID[:2, :3]), [draw.normal(4, 3, 4)])


def test_with_constant_targets_each_pass_has_the_gradient_of_one_divergence(draw):
    first, second = draw.normal(3, 4, 5), draw.normal(3, 4, 5)
    consistency(torch.cat([first, second]), VALID, constant_targets=True).sum().backward()
    for scores, other in ((first, second), (second, first)):
        own = scores.detach().requires_grad_()
        target = other.detach().log_softmax(-1)
        of_position = (target.exp() * (target - own.log_softmax(-1))).sum(-1)
        (of_position * VALID).sum().div(2).backward()
        torch.testing.assert_close(scores.grad, own.grad, rtol=1e-12, atol=1e-12)
        assert own.grad.abs().sum() > 0


def test_padding_changes_nothing_and_gets_no_gradient(draw):
    first, second = draw.normal(3, 4, 5), draw.normal(3, 4, 5)
    whole = consistency(torch.cat([first, second]), VALID)
    whole.sum().backward()
    assert not first.grad[~VALID].any() and first.grad[VALID].abs().min() > 0
    short = consistency(torch.cat([first[1:2, :2], second[1:2, :2]]), VALID[1:2, :2])
    torch.testing.assert_close(whole[1:2], short, rtol=1e-12, atol=1e-12)
    other = torch.where(VALID.unsqueeze(-1), second, 9.0 * second)
    assert torch.equal(consistency(torch.cat([first, other]), VALID), whole)


@pytest.mark.parametrize("constant_targets", [False, True])
def test_rows_are_processed_in_parts(draw, constant_targets, monkeypatch):
    scores = draw.normal(6, 4, 5)
    whole = consistency(scores, VALID, constant_targets)
    gradients = torch.autograd.grad(whole.sum(), scores)
    monkeypatch.setattr(label_smoothing, "CACHED", 10)  # two rows
    found = consistency(scores, VALID, constant_targets)
    for ours, expected in zip((found, *torch.autograd.grad(found.sum(), scores)), (whole, *gradients), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_equal_predictions_give_exactly_zero_and_extreme_ones_are_finite():
    scores = torch.randn(2, 3, 4).half()
    assert torch.equal(consistency(torch.cat([scores, scores]), VALID[:2, :3]), torch.zeros(2))
    certain = torch.tensor([[[60000.0, 0.0]], [[-60000.0, 0.0]]]).half().requires_grad_()
    found = consistency(certain, VALID[:1, :1])
    found.sum().backward()
    assert found.isfinite().all() and found > 1000 and certain.grad.isfinite().all()
