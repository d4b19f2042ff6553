"""Semantic mask attention: equations (10) and (11) of the SDMA paper."""

import torch
from torch import Tensor


def soften(p: Tensor) -> Tensor:
    """Add the machine epsilon, the rounding error of a probability, to posteriors p (..., C).

    If a query has no cluster in common with any key, (2) and (10) are 0/0. With softened posteriors of the queries they
    become softmax attention, and gradients are bounded by the inverse of the epsilon.
    """
    return p + torch.finfo(p.dtype).eps


def semantic_mask(p_query: Tensor, p_key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the probability that query and key are in the same cluster, normalised over the keys, equation (10).

    Args:
        p_query: Posteriors of the queries (..., Tq, C).
        p_key: Posteriors of the keys (..., Tk, C).
        mask: Bool, True = may attend, broadcastable to (..., Tq, Tk).

    Returns:
        (..., Tq, Tk); rows sum to 1 over the keys that the mask allows, and are 0 if it allows none.
    """
    same = torch.matmul(soften(p_query), p_key.transpose(-2, -1))
    return _normalise(same if mask is None else same.masked_fill(~mask, 0.0))


def gamma_schedule(step: Tensor, nu: float = 0.9, rate: float | Tensor = 5e-4) -> Tensor:
    """Return the mixing rate of (11) after `step` training updates (), 1 - max(1 - nu, exp(-rate step)).

    It grows from 0 to its bound nu. The paper prints exp(+rate step), with which it would be negative.
    """
    return 1 - torch.exp(-rate * step).clamp(min=1 - nu)


def _normalise(weights: Tensor) -> Tensor:
    """Divide rows by their sums; rows of zeros stay zeros."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1)
