"""Sorted blocks: Tay et al. 2020, "Sparse Sinkhorn Attention", section 3.

    S_0 = exp((R + noise) / tau),    S_k = columns(rows(S_{k-1}))        Sinkhorn normalisation, in logarithms
    sorted block n = sum_m S_nm block m

rows divides each row by its sum, and columns each column. After enough steps S is close to a matrix whose rows and
columns sum to 1; with a small temperature tau it is close to a permutation. The noise is Gumbel's, in training alone.
"""

import torch
from torch import Tensor

_NEVER = -1e9  # logarithm of 0, finite so that rows of padding have gradients


def gumbel_like(x: Tensor) -> Tensor:
    """Draw noise of Gumbel's distribution in the shape of x."""
    return -torch.empty_like(x).exponential_().log()


def sinkhorn(logits: Tensor, valid: Tensor, iterations: int) -> Tensor:
    """Normalise rows and columns in turn.

    Args:
        logits: Logits of the blocks m at the places n, (B, H, N, N).
        valid: Which blocks are part of a sequence, bool (B or 1, N).
        iterations: Number of steps k, at least 1.

    Returns:
        S_k (B, H, N, N), 0 for other blocks.
    """
    closed = ~(valid.unsqueeze(2) & valid.unsqueeze(1)).unsqueeze(1)
    for dim in (-1, -2) * iterations:
        logits = logits.masked_fill(closed, _NEVER)
        logits = logits - logits.logsumexp(dim, keepdim=True)
    return logits.exp().masked_fill(closed, 0.0)


def sort_blocks(order: Tensor, x: Tensor) -> Tensor:
    """Mix blocks x (B, H, N, S, D) by S_k (B, H, N, N)."""
    return (order @ x.flatten(3)).view_as(x)
