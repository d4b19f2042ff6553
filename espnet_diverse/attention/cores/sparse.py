"""Attention over a sparse pattern of positions, for the cores that have one."""

from dataclasses import replace

from torch import Tensor

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.functional.block_sparse import block_sparse_attention
from espnet_diverse.functional.sparse_patterns import Pattern


def sparse_attention(heads: Heads, pattern: Pattern) -> tuple[Tensor, Tensor | None]:
    """Compute softmax attention over a pattern: the context (B, H, Tq, D), and the weights (B, H, Tq, Tk) or None.

    Whole sequences are computed in blocks. The pattern becomes a mask over all pairs where weights are needed, where
    heads have their own patterns, for the few queries of cached decoding, and for sequences so short that blocks would
    compute no fewer scores.
    """
    time, lengths = heads.k.size(2), heads.lengths()
    if heads.same_positions() and not heads.need_weights and heads.patterns is None:
        blocks = pattern.blocks(time, lengths)
        if blocks.scores() < time * time:
            of_runs = None if heads.position_term is None else heads.position_term.of_runs
            q, k, v, mask = heads.q, heads.k, heads.v, heads.mask
            return block_sparse_attention(q, k, v, blocks, mask, of_runs, heads.dropout), None
    query, key = heads.positions(pattern.causal)
    allowed = pattern.allows(query, key, lengths.view(-1, 1, 1, 1))
    head_mask = heads.allowed()
    mask = allowed if head_mask is None else allowed & head_mask
    position = heads.position if heads.position_term is None else heads.position_term.matrix()
    return softmax_attention(replace(heads, mask=mask, position=position, position_term=None, patterns=None))
