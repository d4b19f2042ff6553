"""Luna, nested linear attention: Ma et al. 2021, "Luna: Linear Unified Nested Attention".

A second sequence P of fixed length l packs the context C, and the queries X attend to the packed rows. Attn is softmax
attention with heads and projections; the equations are numbered here.

    Y_P = Attn(P, C)                                                    pack, l rows          (1)
    Y_X = Attn(X, Y_P)                                                  unpack, n rows        (2)

In the causal form, position t must not see packed rows of later positions. The softmax over time of (1) becomes
softplus, and sums over time become running means. With f_t(x, y, z) = 1/t sum_{j<=t} (x_t . y_j) z_j,

    w_j = softplus(P c_j / sqrt(d)) in R^l,   softplus(s) = log2(1 + 2^s)                     (3)
    a_t = softmax(f_t(q / sqrt(d), k, w)) in R^l                                              (4)
    y_t = f_t(a, w, v)                                                                        (5)

The released code keeps the sums of all t, (n, d, l); here blocks over time keep one sum of (d, l) for each block.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.fused_attention import fused_attention

BLOCK = 128
"""Number of positions of a block; a block has a matrix of BLOCK x BLOCK scores for each head."""

Total = Callable[[Tensor, Tensor, Tensor], Tensor]


def nested_attention(
    p: Tensor,
    k: Tensor,
    v: Tensor,
    unpack: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
    seen: Tensor | None = None,
    rows: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Compute pack (1) and unpack (2) attention.

    Args:
        p: Projected queries of the pack attention (B, H_p, l, D_p).
        k: Its keys (B, H_p, T, D_p).
        v: Its values (B, H_p, T, D_p).
        unpack: Makes queries (B, H, n, D), keys and values (B, H, l, D) of the unpack attention from Y_P (B, l, M).
        seen: Which positions of the context are not padding, bool, broadcastable to (B, 1, l, T), or None (all).
        rows: Which rows of P take part, bool, broadcastable to (B, 1, n, l), or None (all).
        dropout: Dropout rate of both attentions' weights.

    Returns:
        Y_X (B, H, n, D) and Y_P (B, l, M).
    """
    packed = fused_attention(p, k, v, seen, dropout).transpose(1, 2).flatten(2)
    return fused_attention(*unpack(packed), rows, dropout), packed


def pack(p: Tensor, parts: Iterable[tuple[Tensor, Tensor, Tensor | None]]) -> tuple[Tensor, Tensor]:
    """Compute (1) over a context that is given in parts, each a softmax with its own maximum.

    Args:
        p: Projected queries of the pack attention (1 or B, H_p, l, D_p).
        parts: Keys (B, H_p, T, D_p) and values of the same shape of each part, and which positions are not padding,
            bool, broadcastable to (B, 1, l, T), or None (all).

    Returns:
        Y_P (B, l, M), zero for a context of padding alone, and the number of positions that are not padding,
        broadcastable to (B, 1, 1, 1).
    """
    results = [_pack_part(p, *part) for part in parts]
    top, total, packed, count = (torch.stack(tensors) for tensors in zip(*results, strict=True))
    share = (top - top.amax(0)).exp()
    packed = (share * packed).sum(0) / (share * total).sum(0).clamp(min=1.0)
    return packed.transpose(1, 2).flatten(2), count.sum(0)


def pattern(p: Tensor, c: Tensor) -> Tensor:
    """Compute w of (3): p (1 or B, H, l, D) and c (B, H, T, D) -> (B, H, T, l)."""
    return F.softplus(c @ p.transpose(-2, -1) / math.sqrt(p.size(-1)), beta=math.log(2))


def causal_attention(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, valid: Tensor | None = None, dropout: float = 0.0, block: int = BLOCK
) -> Tensor:
    """Compute (4) and (5) for all positions, in blocks over time.

    Args:
        q: Queries (B, H, T, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D).
        w: What `pattern` returned, (B, H, T, l).
        valid: Which positions are not padding, bool, broadcastable to (B, 1, T), or None (all). Padding counts nowhere.
        dropout: Dropout rate of a.
        block: Number of positions of a block.

    Returns:
        y (B, H, T, D).
    """
    if valid is None:
        count = torch.arange(1, q.size(-2) + 1, device=q.device).unsqueeze(-1)
    else:
        count = valid.unsqueeze(-1).cumsum(-2)
        w = w.masked_fill(~valid.unsqueeze(-1), 0.0)
    return _attend(q, k, v, w, partial(causal_sum, block=block), count, dropout)


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Compute (4) and (5) for a few queries, each over the keys that a mask allows.

    Args:
        q: Queries (B, H, n, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D).
        w: What `pattern` returned for the keys, (B, H, T, l).
        mask: Bool, True = may attend, broadcastable to (B, 1, n, T), or None (all).
        dropout: Dropout rate of a.

    Returns:
        y (B, H, n, D).
    """
    allowed = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool, device=k.device) if mask is None else mask

    def total(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return (x @ y.transpose(-2, -1)).masked_fill(~allowed, 0.0) @ z

    return _attend(q, k, v, w, total, allowed.sum(-1, keepdim=True), dropout)


def causal_sum(x: Tensor, y: Tensor, z: Tensor, block: int = BLOCK) -> Tensor:
    """Compute sum_{j<=t} (x_t . y_j) z_j for all t: x, y (..., T, D1) and z (..., T, D2) -> (..., T, D2)."""
    sums, before = [], None
    for x_t, y_t, z_t in zip(*(part.split(block, dim=-2) for part in (x, y, z)), strict=True):
        intra = (x_t @ y_t.transpose(-2, -1)).tril() @ z_t
        sums.append(intra if before is None else intra + x_t @ before)
        outer = y_t.transpose(-2, -1) @ z_t
        before = outer if before is None else before + outer
    return torch.cat(sums, dim=-2)


def _attend(q: Tensor, k: Tensor, v: Tensor, w: Tensor, total: Total, count: Tensor, dropout: float) -> Tensor:
    """Equations (4) and (5); `count` (..., n, 1) is t, and a query without keys, 0, gets 0."""
    t = count.clamp(min=1)
    a = torch.softmax(total(q / math.sqrt(q.size(-1)), k, w) / t, dim=-1)
    return total(F.dropout(a, dropout), w, v) / t


def _pack_part(p: Tensor, k: Tensor, v: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the greatest score, the sums of exponentials relative to it and of values, and the number of positions."""
    scores = p @ k.transpose(-2, -1) / math.sqrt(p.size(-1))
    valid = torch.ones_like(scores[:1, :1, :1], dtype=torch.bool) if valid is None else valid
    top = scores.masked_fill(~valid, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    terms = (scores - top).masked_fill(~valid, -torch.inf).exp()
    return top, terms.sum(-1, keepdim=True), terms @ v, valid.sum(-1, keepdim=True)
