"""Attention over a sparse pattern of positions, for the cores that have one."""

from dataclasses import replace

import torch
from torch import Tensor

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.functional.block_sparse import block_sparse_attention
from espnet_diverse.functional.sparse_patterns import Pattern


def sparse_attention(heads: Heads, pattern: Pattern) -> tuple[Tensor, Tensor | None]:
    """Compute softmax attention over a pattern: the context (B, H, Tq, D), and the weights (B, H, Tq, Tk) or None.

    Whole sequences are computed in blocks. The pattern becomes a mask over all pairs where weights are needed, for the
    few queries of cached decoding, and for sequences so short that blocks would compute no fewer scores.
    """
    time, lengths = heads.k.size(2), _lengths(heads)
    if heads.same_positions() and not heads.need_weights:
        blocks = pattern.blocks(time, lengths)
        if blocks.scores() < time * time:
            of_runs = None if heads.position_term is None else heads.position_term.of_runs
            q, k, v, mask = heads.q, heads.k, heads.v, heads.mask
            return block_sparse_attention(q, k, v, blocks, mask, of_runs, heads.dropout), None
    query, key = _positions(heads, pattern.causal)
    allowed = pattern.allows(query, key, lengths.view(-1, 1, 1, 1))
    mask = allowed if heads.mask is None else allowed & heads.mask
    position = heads.position if heads.position_term is None else heads.position_term.matrix()
    return softmax_attention(replace(heads, mask=mask, position=position, position_term=None))


def _lengths(heads: Heads) -> Tensor:
    """Return the lengths of the key sequences, (B,) or (1,): up to the last key that any query may attend to."""
    numbers = torch.arange(1, heads.k.size(2) + 1, device=heads.k.device)
    return numbers[-1:] if heads.mask is None else (heads.mask.any(-2).squeeze(1) * numbers).amax(-1)


def _positions(heads: Heads, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys, broadcastable to (B, 1, Tq, 1) and (B, 1, Tq, Tk).

    With a cache, the keys of several hypotheses may lie side by side in the order of their positions. Which position a
    key has for a query follows from the mask: it allows the query's own position and all before it.
    """
    if causal and heads.mask is not None and not heads.same_positions():
        key = heads.mask.expand(-1, -1, -1, heads.k.size(2)).cumsum(-1) - 1
        return key[..., -1:], key
    key = torch.arange(heads.k.size(2), device=heads.k.device)
    return key[-heads.q.size(2) :].unsqueeze(-1), key
