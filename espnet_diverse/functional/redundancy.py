"""Measures of the difference between the heads of an attention, or the slots of a memory.

Layer and head redundancy of attention weights, section IV-A of the SDMA paper:

    JS(a_1 ... a_H) = H(mean_h a_h) - mean_h H(a_h)                         Jensen-Shannon divergence, in bits
    LR = 1/N sum_n (log2 H - mean_i JS(A^{n,1}_i ... A^{n,H}_i))
    HR = 1/(N H)^2 sum_{n,h} sum_{n',h'} mean_i (1 - JS(A^{n,h}_i, A^{n',h'}_i))

Weights are those of one sequence, (N, H, Tq, Tk) for N layers. Padded keys have weight 0 and add nothing; padded
queries are left out by `mask`, (Tq,) bool, True = valid.

Distance of heads, An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference",
section 5 (Dist), of vectors z_h of the heads; and diversity of N vectors m_n of a memory, Lai et al. 2020, "Diversity,
Density, and Homogeneity: Quantitative Characteristic Metrics for Text Collections":

    Dist = mean over items and pairs h < h' of ||z_h - z_h'||
    diversity = (prod_d std_n(m_nd))^(1/D)                            the radius of the cluster of vectors
"""

import math

import torch
from torch import Tensor

from espnet_diverse.functional.masks import masked_mean


def _entropy(p: Tensor) -> Tensor:
    """Compute the entropy in bits over the last dimension; 0 log 0 = 0, with a finite gradient."""
    return -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log2()).sum(-1)


def _valid_rows(weights: Tensor, mask: Tensor | None) -> Tensor:
    rows = weights if mask is None else weights[..., mask, :]
    if rows.size(-2) == 0:
        raise ValueError("no valid query to compare heads on; give weights with at least one row that is not padding")
    return rows


def layer_redundancy(weights: Tensor, normalised: bool = False, mask: Tensor | None = None) -> Tensor:
    """Compute the layer redundancy LR in bits, a scalar: 0 for disjoint heads, log2 H for identical heads.

    Args:
        weights: Attention weights (N, H, Tq, Tk).
        normalised: Whether to divide by log2 H, as the tables and the released code of the paper do, but not its
            formula.
        mask: Valid queries, (Tq,) bool.

    Raises:
        ValueError: There is no valid query, or `normalised` is true with a single head.
    """
    heads = weights.size(1)
    if normalised and heads == 1:
        raise ValueError("one head has no normalised layer redundancy (log2 1 = 0); give at least 2 heads")
    rows = _valid_rows(weights, mask)
    divergence = _entropy(rows.mean(1)) - _entropy(rows).mean(1)  # (N, Tq)
    redundancy = math.log2(heads) - divergence.mean()
    return redundancy / math.log2(heads) if normalised else redundancy


def head_redundancy_matrix(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute 1 - JS of every two heads of the model, in bits: weights (N, H, Tq, Tk) -> (N H, N H), in [0, 1].

    Raises:
        ValueError: There is no valid query.
    """
    rows = _valid_rows(weights, mask).flatten(0, 1)  # (N H, Tq, Tk)
    entropy = _entropy(rows)
    # One head against all at a time: this takes the memory of the weights, not its square.
    return torch.stack(
        [
            1 - (_entropy((row + rows) / 2) - (own + entropy) / 2).mean(-1)
            for row, own in zip(rows, entropy, strict=True)
        ]
    )


def head_redundancy(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the head redundancy HR, the mean of `head_redundancy_matrix` with its diagonal of ones; at least 1/(N H).

    Raises:
        ValueError: There is no valid query.
    """
    return head_redundancy_matrix(weights, mask).mean()


def pairwise_distance(heads: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the mean Euclidean distance of two different heads, a scalar.

    Args:
        heads: Vectors (..., H, D) of the heads for each item; an item is a sentence, or a valid frame of one.
        mask: Items that count, (...) bool; None counts all.

    Raises:
        ValueError: There is a single head, or no item.
    """
    number = heads.size(-2)
    if number < 2:
        raise ValueError("one head has no distance to another; give at least 2 heads")
    items = heads.reshape(-1, *heads.shape[-2:]) if mask is None else heads[mask]
    if items.size(0) == 0:
        raise ValueError("no item to compare heads on; give at least one that is not padding")
    first, second = torch.triu_indices(number, number, 1, device=heads.device)
    return (items[:, first] - items[:, second]).norm(dim=-1).mean()


def diversity_radius(vectors: Tensor, ddof: int = 0, valid: Tensor | None = None) -> Tensor:
    """Compute the diversity, the geometric mean over axes of the standard deviation: vectors (..., N, D) -> (...).

    It is 0 if the vectors agree in an axis, and where at most `ddof` of them are valid. It is computed from logarithms,
    so that many small radii do not underflow.

    Args:
        vectors: N vectors of D numbers, such as the slots of a memory.
        ddof: The variance is divided by the number of vectors - ddof.
        valid: Vectors that count, such as filled slots, (..., N) bool; None counts all.

    Raises:
        ValueError: There are not more than `ddof` vectors.
    """
    if vectors.size(-2) <= ddof:
        raise ValueError(f"{vectors.size(-2)} vectors have no variance with ddof {ddof}; give at least {ddof + 1}")
    if valid is None:
        variance = vectors.var(-2, correction=ddof)
    else:
        valid = valid.unsqueeze(-1)
        deviation = vectors - masked_mean(vectors, valid, -2).unsqueeze(-2)
        count = valid.sum(-2)
        variance = masked_mean(deviation.square(), valid, -2) * count / (count - ddof).clamp(min=1) * (count > ddof)
    return variance.log().mean(-1).div(2).exp()
