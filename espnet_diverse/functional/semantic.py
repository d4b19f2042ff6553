"""Semantic mask attention: equations (2), (10) and (11) of the SDMA paper."""

import math
from typing import overload

import torch
from torch import Tensor


def soften(p: Tensor) -> Tensor:
    """Posteriors p (..., C) with the machine epsilon added, which is what rounding leaves uncertain in them.

    Where a query shares no cluster with any key, (2) and (10) are 0/0; with softened queries their limit is plain
    attention, and no gradient exceeds the inverse of the epsilon.
    """
    return p + torch.finfo(p.dtype).eps


def same_cluster(p_query: Tensor, p_key: Tensor) -> Tensor:
    """Probability that query and key are of one cluster, (10) before its normaliser.

    p_query (..., Tq, C) and p_key (..., Tk, C) -> (..., Tq, Tk).
    """
    return torch.matmul(soften(p_query), p_key.transpose(-2, -1))


def semantic_mask(p_query: Tensor, p_key: Tensor, mask: Tensor | None = None) -> Tensor:
    """How likely query and key are of one cluster, normalised over the keys, equation (10).

    Args:
        p_query: Posteriors of the queries (..., Tq, C).
        p_key: Posteriors of the keys (..., Tk, C).
        mask: Bool, True = may attend, broadcastable to (..., Tq, Tk).

    Returns:
        (..., Tq, Tk); rows sum to one over the keys that may be attended, and are zero where there are none.
    """
    same = same_cluster(p_query, p_key)
    return _normalise(same if mask is None else same.masked_fill(~mask, 0.0))


def masked_attention(weights: Tensor, semantic: Tensor) -> Tensor:
    """Attention weights A re-weighted by a mask M, equation (2).

    weights and semantic (..., Tq, Tk) -> Abar (..., Tq, Tk). The scale of each row of M cancels, so that M may come
    from `semantic_mask` or, cheaper, from `same_cluster`.
    """
    return _normalise(weights * semantic)


def mix(weights: Tensor, masked: Tensor, gamma: float | Tensor) -> Tensor:
    """Ahat = (1 - gamma) A + gamma Abar, equation (11): weights and masked (..., Tq, Tk) -> the same shape."""
    return (1 - gamma) * weights + gamma * masked


@overload
def gamma_schedule(step: Tensor, nu: float = ..., rate: float = ...) -> Tensor: ...
@overload
def gamma_schedule(step: float, nu: float = ..., rate: float = ...) -> float: ...
def gamma_schedule(step: float | Tensor, nu: float = 0.9, rate: float = 5e-4) -> float | Tensor:
    """Mixing rate of (11) after `step` training updates: 1 - max(1 - nu, exp(-rate step)).

    It grows from 0 to its bound nu. The paper prints exp(+rate step), which would make it negative.
    """
    if isinstance(step, Tensor):
        return 1 - torch.exp(-rate * step).clamp(min=1 - nu)
    return 1 - max(1 - nu, math.exp(-rate * step))


def _normalise(weights: Tensor) -> Tensor:
    """Rows divided by their sums; rows of zeros stay zeros."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1)
