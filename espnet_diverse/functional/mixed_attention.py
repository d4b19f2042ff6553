"""SDMA's attention with the whole matrix of weights, in differentiable operations.

The equations are in `blockwise`, which computes the same in blocks.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.semantic import soften


def mixed_weights(
    q: Tensor,
    k: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute the weights Ahat = A o W, (..., H, Tq, Tk).

    Takes the same arguments as `blockwise.sdma_attention`, without the values.
    """
    scores = torch.matmul(q * (1 / math.sqrt(q.size(-1))), k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores - excluded(mask).to(scores.dtype) * huge(scores)
    weights = scores.softmax(-1)
    p_query, p_key = soften(p_query).transpose(-2, -1), p_key.transpose(-2, -1)
    norm = (p_query * torch.matmul(p_key, weights.transpose(-2, -1))).sum(-2, keepdim=True)
    coefficients = coefficients_of(p_query, norm, gamma, torch.ones_like(norm)).transpose(-2, -1)
    if mask is not None:  # the softmax of a query without keys is uniform
        coefficients = coefficients * mask.any(-1, keepdim=True)
    return weights * torch.matmul(coefficients, with_ones(p_key))


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute the context (..., H, Tq, D).

    Takes the same arguments as `blockwise.sdma_attention`.
    """
    return torch.matmul(mixed_weights(q, k, p_query, p_key, gamma, mask, bias), v)


def excluded(mask: Tensor) -> Tensor:
    """Return which keys a mask excludes.

    Raises:
        ValueError: The mask is not bool.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"the mask is {mask.dtype}; give bool, True = may attend")
    return ~mask


def huge(x: Tensor) -> float:
    """Return the number that is subtracted from scores of excluded keys; finite, because inf - inf is not a number."""
    return torch.finfo(x.dtype).max / 2


def coefficients_of(p: Tensor, norm: Tensor, gamma: float | Tensor, total: Tensor) -> Tensor:
    """Return [gamma P / r, (1 - gamma) / total]^T, the left factor of W.

    p (..., C, T), norm and total (..., 1, T) -> (..., C + 1, T).
    """
    return torch.cat([gamma * p / norm, (1 - gamma) / total], -2)


def with_ones(p_key: Tensor) -> Tensor:
    """Append a row of ones to R^T, which gives row sums: (..., C, Tk) -> (..., C + 1, Tk)."""
    return F.pad(p_key, (0, 0, 0, 1), value=1.0)
