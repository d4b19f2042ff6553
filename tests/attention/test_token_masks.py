"""Masks of tokens."""

import torch

from espnet_diverse.attention import Heads
from espnet_diverse.attention.token_masks import key_side_mask, query_side_mask
from espnet_diverse.scope import scope

T = 5
PADDING = torch.arange(T) < torch.tensor([[5], [3]])
PADDED = PADDING.view(2, 1, 1, T)
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril().view(1, 1, T, T)


def heads(mask, cross=False):
    query, q = torch.zeros(2, T, 4), torch.zeros(2, 2, T, 2)
    return Heads(q, q, q, query, query.clone() if cross else query, q, mask=mask)


def test_which_positions_are_tokens():
    assert torch.equal(key_side_mask(heads(PADDED & CAUSAL))[:, 0], PADDING)
    assert torch.equal(query_side_mask(heads(PADDED))[:, 0], PADDING)
    assert key_side_mask(heads(None)) is None and query_side_mask(heads(PADDED, cross=True)) is None
    with scope() as shared:
        shared.query_mask = PADDING
        assert torch.equal(query_side_mask(heads(None, cross=True))[:, 0], PADDING)
