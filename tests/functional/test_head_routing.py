"""Gates and balance of routed heads against loops over tokens and heads."""

import math

import pytest
import torch

from espnet_diverse.functional.head_routing import balance_loss, routed_gates, shared_gates

BATCH, TIME, HEADS = 2, 5, 4
LENGTHS = [5, 3]


def logits():
    return torch.randn(BATCH, TIME, HEADS, generator=torch.Generator().manual_seed(2), dtype=torch.double)


def softmax(row):
    exponentials = [math.exp(each) for each in row]
    return [each / sum(exponentials) for each in exponentials]


@pytest.mark.parametrize("active", [1, 2, 4])
def test_gates_match_a_loop(active):
    given = logits()
    gates, chosen = routed_gates(given, active)
    for b in range(BATCH):
        for t in range(TIME):
            row = given[b, t].tolist()
            best = sorted(range(HEADS), key=lambda h: -row[h])[:active]
            weights = dict(zip(best, softmax([row[h] for h in best]), strict=True))
            for h in range(HEADS):
                assert bool(chosen[b, t, h]) == (h in best)
                assert float(gates[b, t, h]) == pytest.approx(active * weights.get(h, 0))


def test_gates_of_shared_heads_match_a_loop():
    given = logits()
    for b in range(BATCH):
        for t in range(TIME):
            expected = [HEADS * each for each in softmax(given[b, t].tolist())]
            assert shared_gates(given)[b, t].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("masked", [False, True])
def test_the_balance_matches_a_loop(masked):
    given = logits()
    _, chosen = routed_gates(given, 2)
    valid = torch.arange(TIME) < torch.tensor(LENGTHS)[:, None] if masked else None
    losses = balance_loss(given, chosen, valid)
    for b in range(BATCH):
        length = LENGTHS[b] if masked else TIME
        expected = 0.0
        for h in range(HEADS):
            probable = sum(softmax(given[b, t].tolist())[h] for t in range(length)) / length
            used = sum(bool(chosen[b, t, h]) for t in range(length)) / length
            expected += HEADS * probable * used
        assert float(losses[b]) == pytest.approx(expected)


def test_the_balance_is_least_where_heads_are_equally_used():
    equal = 10.0 * torch.eye(HEADS, dtype=torch.double)[None]
    assert float(balance_loss(equal, routed_gates(equal, 1)[1])) == pytest.approx(1, abs=1e-3)
    same = equal[:, :1].expand(1, HEADS, HEADS)
    assert float(balance_loss(same, routed_gates(same, 1)[1])) == pytest.approx(HEADS, abs=0.01)
    assert float(balance_loss(same, routed_gates(same, 1)[1], torch.zeros(1, HEADS, dtype=torch.bool))) == 0


def test_gradients():
    given = logits().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: routed_gates(x, 2)[0], given)
    assert torch.autograd.gradcheck(shared_gates, given)
    _, chosen = routed_gates(given.detach(), 2)
    assert torch.autograd.gradcheck(lambda x: balance_loss(x, chosen), given)
