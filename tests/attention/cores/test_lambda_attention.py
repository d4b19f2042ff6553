"""The lambda core against loops in double precision, its gradients, and its forms against each other."""

import pytest
import torch
from references import efficient as oracle
from references.core_inputs import CASES, SIZE, B, H, gradcheck, heads

from espnet_diverse.attention import build_core

T = 6
each_case = pytest.mark.parametrize(("mask", "causal"), CASES.values(), ids=CASES)


@each_case
def test_equals_loops(mask, causal):
    given = heads(mask)
    context, weights = build_core("lambda_attention", SIZE, H, causal=causal)(given)
    seen = torch.ones(B, 1, T, T, dtype=torch.bool) if mask is None else mask.expand(B, 1, T, T)
    for b in range(B):
        for h in range(H):
            one = (x[b, h].numpy() for x in (given.q, given.k, given.v, seen.expand(-1, H, -1, -1)))
            torch.testing.assert_close(context[b, h], torch.tensor(oracle.lambda_attention(*one)))
    assert weights is None


@each_case
def test_gradcheck(mask, causal):
    core, given = build_core("lambda_attention", SIZE, H, causal=causal), heads(mask)
    assert gradcheck(core, given)


def test_hypotheses_side_by_side_are_not_taken_for_positions():
    """In the first step of a search the hypotheses are as many as the keys, and each sees its own alone."""
    given = heads(torch.eye(T, dtype=torch.bool).view(1, 1, T, T))
    given.perturbed = None
    context, _ = build_core("lambda_attention", SIZE, H, causal=True)(given)
    torch.testing.assert_close(context, given.q.sum(-1, keepdim=True) * given.v)


def test_dropout_acts_on_the_values():
    core = build_core("lambda_attention", SIZE, H)
    torch.manual_seed(0)
    dropped = core(heads(None, dropout=0.5))[0]
    torch.manual_seed(0)
    given = heads(None)
    given.v = torch.nn.functional.dropout(given.v, 0.5)
    torch.testing.assert_close(dropped, core(given)[0])
