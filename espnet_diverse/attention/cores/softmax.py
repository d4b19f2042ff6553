"""Scaled dot-product attention, Vaswani et al. 2017, "Attention is all you need", equation (1).

    A = softmax(Q K^T / sqrt(D)),    context = A V

Softmax-equivalent setting: always. With weights the output equals the output of ESPnet's attention bit for bit.
Cost: O(Tq Tk D) time; O(Tq D) memory with PyTorch's fused kernel, O(Tq Tk) when weights are needed, with relative
position, and in training on CPUs with attention dropout.
"""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.head_patterns import HeadPatterns
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
    only_logits = True
    SOFTMAX_EQUIVALENT = {}

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        return softmax_attention(heads)


def softmax_attention(heads: Heads) -> tuple[Tensor, Tensor | None]:
    """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None, equation (1)."""
    if heads.need_weights:
        weights = masked_softmax(heads.scores(), heads.allowed())
        return F.dropout(weights, heads.dropout) @ heads.v, weights
    if isinstance(heads.patterns, HeadPatterns) and _pattern_by_pattern(heads, heads.patterns):
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
    return heads.k.size(2) >= _LONG or all(each.name in ("global", *ONE_KEY) for each in patterns.patterns)


def _by_pattern(heads: Heads, patterns: HeadPatterns) -> Tensor:
    """Compute the context (B, H, T, D) of self-attention pattern by pattern, with the pairs that each needs."""
    context, lengths = torch.empty_like(heads.v), heads.lengths()
    for pattern, members in patterns.groups().items():
        # A slice copies nothing.
        adjacent = members == list(range(members[0], members[-1] + 1))
        chosen = slice(members[0], members[-1] + 1) if adjacent else copied(members, context.device)
        q, k, v = (x[:, chosen] for x in (heads.q, heads.k, heads.v))
        if pattern.name in ONE_KEY:
            some = one_key_attention(pattern.name, v, lengths, heads.mask, heads.dropout)
        elif pattern.name in IN_BLOCKS:
            blocks = IN_BLOCKS[pattern.name](pattern.width).blocks(k.size(2), lengths)
            some = block_sparse_attention(q, k, v, blocks, heads.mask, dropout=heads.dropout)
        elif pattern.name == "ends":
            some = ends_attention(q, k, v, pattern.width, pattern.last, heads.mask, heads.dropout)
        elif pattern.name == "global":
            some = fused_attention(q, k, v, heads.mask, heads.dropout)
        else:
            some = triangular_attention(q, k, v, pattern.name == "forward", heads.mask, heads.dropout)
        context[:, chosen] = some
    # Without pairs to learn from, gradients of queries and keys are 0: several processes wait for those of all.
    return context + heads.q[:, :, :0].sum() + heads.k[:, :, :0].sum() if patterns.one_key else context


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that the mask allows; 0 at other keys, and a row of 0 if it allows none.

    The order of operations is ESPnet's: equal inputs give equal bits.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
