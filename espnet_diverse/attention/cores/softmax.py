"""Scaled dot-product attention, Vaswani et al. 2017, "Attention is all you need", equation (1).

    A = softmax(Q K^T / sqrt(D)),    context = A V

Softmax-equivalent setting: always. With weights the output equals the output of ESPnet's attention bit for bit.
Cost: O(Tq Tk D) time; O(Tq D) memory with PyTorch's fused kernel, O(Tq Tk) when weights are needed, with relative
position, and in training on CPUs with attention dropout.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.head_patterns import HeadPattern, HeadPatterns
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.block_sparse import block_sparse_attention
from espnet_diverse.functional.copies import copied
from espnet_diverse.functional.fused_attention import fused_attention
from espnet_diverse.functional.head_patterns import (
    IN_BLOCKS,
    ONE_KEY,
    ends_attention,
    one_key_attention,
    triangular_attention,
)
from espnet_diverse.scope import current

#: Number of positions from which any patterns of heads are computed one by one.
_LONG = 256


class Softmax(Core):
    """Softmax attention, the baseline. It has no options and no parameters."""

    supports = EVERYTHING
    only_logits = by_pattern = True
    SOFTMAX_EQUIVALENT = {}

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        return softmax_attention(heads)


def softmax_attention(heads: Heads) -> tuple[Tensor, Tensor | None]:
    """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None, equation (1)."""
    one_by_one = isinstance(heads.patterns, HeadPatterns) and _pattern_by_pattern(heads, heads.patterns)
    if heads.position_term is not None and (heads.need_weights or not one_by_one):
        heads = replace(heads, position=heads.position_term.matrix(), position_term=None)
    if heads.need_weights:
        weights = masked_softmax(heads.scores(), heads.allowed())
        return F.dropout(weights, heads.dropout) @ heads.v, weights
    if isinstance(heads.patterns, HeadPatterns) and one_by_one:
        return _by_pattern(heads, heads.patterns), None
    bias, allowed = heads.scaled_position(), heads.allowed()
    if bias is None:
        if allowed is not None and heads.same_positions():
            allowed = current().once(_logit_mask(heads.q.dtype), allowed)  # the kernel would convert it in every layer
        bias = allowed
    elif allowed is not None:
        bias = bias.masked_fill(~allowed, -torch.inf)
    return fused_attention(heads.q, heads.k, heads.v, bias, heads.dropout), None


@functools.cache
def _logit_mask(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Function from a mask of pairs, True = may attend, to the terms of the logits: 0, or minus infinity."""

    def convert(allowed: Tensor) -> Tensor:
        return allowed.new_zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, -torch.inf)

    return convert


def _pattern_by_pattern(heads: Heads, patterns: HeadPatterns) -> bool:
    """Return whether patterns are computed one by one; never for a tracer, to which a length would be a constant."""
    if not heads.same_positions() or heads.position is not None or torch.jit.is_tracing():
        return False
    names, term = {pattern.name for pattern in patterns.patterns}, heads.position_term
    if term is not None and not (term.by_distance() and names <= {"global", *IN_BLOCKS, *ONE_KEY}):
        return False
    return heads.k.size(2) >= _LONG or names <= {"global", *ONE_KEY}


def _by_pattern(heads: Heads, patterns: HeadPatterns) -> Tensor:
    """Compute the context (B, H, T, D) of self-attention pattern by pattern, with the pairs that each needs."""
    context = torch.empty_like(heads.v)
    for pattern, members in patterns.groups().items():
        # A slice copies nothing.
        adjacent = members == list(range(members[0], members[-1] + 1))
        chosen = slice(members[0], members[-1] + 1) if adjacent else copied(members, context.device)
        context[:, chosen] = _of_pattern(heads, pattern, chosen)
    if patterns.one_key:
        # Without pairs to learn from, gradients of logits are 0: several processes wait for those of all.
        for unused in (heads.q, heads.k, *(heads.position_term or ())):
            context = context + unused[:, :, :0].sum()
    return context


def _of_pattern(heads: Heads, pattern: HeadPattern, chosen: slice | Tensor) -> Tensor:
    """Compute the context (B, h, T, D) of the h chosen heads, which have one pattern."""
    q, k, v = (x[:, chosen] for x in (heads.q, heads.k, heads.v))
    term, time, name = heads.position_term, heads.k.size(2), pattern.name
    term = None if term is None else PositionTerm(term.q[:, chosen], term.p[:, chosen])
    if name in ONE_KEY:
        return one_key_attention(name, v, heads.lengths(), heads.mask, heads.dropout)
    if name in IN_BLOCKS and not (name == "window" and pattern.width >= time - 1):  # which is all positions
        blocks = IN_BLOCKS[name](pattern.width).blocks(time, heads.lengths())
        if blocks.scores() < time * time:
            of_runs = None if term is None else term.of_runs
            return block_sparse_attention(q, k, v, blocks, heads.mask, of_runs, heads.dropout)
        position = torch.arange(time, device=k.device)
        pairs = IN_BLOCKS[name](pattern.width).allows(position.unsqueeze(-1), position, heads.lengths())
        return _dense(heads, q, k, v, term, pairs)
    if name == "ends":
        return ends_attention(q, k, v, pattern.width, pattern.last, heads.mask, heads.dropout)
    if name in ("forward", "backward"):
        return triangular_attention(q, k, v, name == "forward", heads.mask, heads.dropout)
    return _dense(heads, q, k, v, term)


def _dense(
    heads: Heads, q: Tensor, k: Tensor, v: Tensor, term: PositionTerm | None, pairs: Tensor | None = None
) -> Tensor:
    """Compute the context (B, h, T, D) of some heads from all pairs, of which those of `pairs` (T, T) may attend."""
    allowed = heads.mask if pairs is None else pairs if heads.mask is None else heads.mask & pairs
    if term is not None:
        bias = term.matrix() / math.sqrt(term.q.size(-1))
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    return fused_attention(q, k, v, allowed, heads.dropout)


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that the mask allows; 0 at other keys, and a row of 0 if it allows none.

    The order of operations is ESPnet's: equal inputs give equal bits.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
