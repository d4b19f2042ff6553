"""Disagreement of heads, and other penalties on heads that are alike.

Li et al. 2018, "Multi-Head Attention with Disagreement Regularization", EMNLP. For the H heads of a sample:

    D_subspace = -1/H^2 sum_ij cos(V_i, V_j)              values of the heads
    D_position = -1/H^2 sum_ij |A_i . A_j|                attention weights, over queries and keys
    D_output   = -1/H^2 sum_ij cos(O_i, O_j)              outputs of the heads

D is negative, at most 0, and is maximised: -D is added to the loss. The cosine of two heads is taken over their whole
sequences, or is the mean of the cosines of their vectors at each position. With u_i = x_i / ||x_i||,
sum_ij cos(x_i, x_j) = ||sum_i u_i||^2, so that no pair of heads is computed.

Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", section 2.2, penalise ||A A^T - I||_F^2 of the
weights A with which H heads attend to the same tokens.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.masks import masked_mean


def disagreement(heads: Tensor, mask: Tensor | None = None, per: str = "sequence") -> Tensor:
    """Compute -1/H^2 sum_ij cos(x_i, x_j), D_subspace of values or D_output of outputs.

    Args:
        heads: A vector of each head at each position, (..., H, T, D).
        mask: Valid positions, bool broadcastable to (..., T), or None (all).
        per: "sequence" for the cosine of whole heads (T D numbers each), "position" for the mean over valid positions
            of the cosine of vectors (D numbers each).

    Returns:
        (...), between -1 (equal directions) and 0.

    Raises:
        ValueError: `per` is unknown.
    """
    if per not in ("sequence", "position"):
        raise ValueError(f"unknown per {per!r}; known: sequence position")
    if mask is not None:
        heads = heads.masked_fill(~mask[..., None, :, None], 0.0)
    if per == "sequence":
        return -F.normalize(heads.flatten(-2), dim=-1).mean(-2).square().sum(-1)
    alike = F.normalize(heads, dim=-1).mean(-3).square().sum(-1)  # (..., T)
    return -masked_mean(alike, mask)


def position_disagreement(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute D_position: weights (..., H, Tq, Tk), mask of valid queries (..., Tq) bool -> (...).

    It is a sum over queries, so that it grows with their number, as in the paper.
    """
    alike = weights.abs().mean(-3).square().sum(-1)  # (..., Tq)
    return -(alike if mask is None else alike.masked_fill(~mask, 0.0)).sum(-1)


def frobenius(a: Tensor) -> Tensor:
    """Compute ||A A^T - I||_F^2: weights (..., H, T) of H heads over T tokens -> (...)."""
    return (a @ a.transpose(-2, -1) - torch.eye(a.size(-2), dtype=a.dtype, device=a.device)).square().sum((-2, -1))


def frobenius_of_queries(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the mean of `frobenius` over valid queries: weights (..., H, Tq, Tk), mask (..., Tq) bool -> (...)."""
    return masked_mean(frobenius(weights.transpose(-3, -2)), mask)
