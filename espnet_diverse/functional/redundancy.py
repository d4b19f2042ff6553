"""Measures of the difference between the heads of an attention, or the slots of a memory.

Layer and head redundancy of attention weights, section IV-A of the SDMA paper:

    JS(a_1 ... a_H) = H(mean_h a_h) - mean_h H(a_h)                         Jensen-Shannon divergence, in bits
    LR = 1/N sum_n (log2 H - mean_i JS(A^{n,1}_i ... A^{n,H}_i))
    HR = 1/(N H)^2 sum_{n,h} sum_{n',h'} mean_i (1 - JS(A^{n,h}_i, A^{n',h'}_i))

HR is the mean of `head_redundancy_matrix`. Weights belong to one sequence, (N, H, Tq, Tk) for N layers, without padded
queries. Padded keys have weight 0 and add nothing.

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


def layer_redundancy(weights: Tensor) -> Tensor:
    """Compute the layer redundancy LR in bits, a scalar, of weights (N, H, Tq, Tk).

    It is 0 for disjoint heads and log2 H for identical ones. The tables and the released code of the paper divide it by
    log2 H, but its formula does not.
    """
    divergence = _entropy(weights.mean(1)) - _entropy(weights).mean(1)  # (N, Tq)
    return math.log2(weights.size(1)) - divergence.mean()


def head_redundancy_matrix(weights: Tensor) -> Tensor:
    """Compute 1 - JS of every two heads of the model, in bits: weights (N, H, Tq, Tk) -> (N H, N H), in [0, 1]."""
    rows = weights.flatten(0, 1)  # (N H, Tq, Tk)
    entropy = _entropy(rows)
    # One head against all at a time: this takes the memory of the weights, not its square.
    return torch.stack(
        [
            1 - (_entropy((row + rows) / 2) - (row_entropy + entropy) / 2).mean(-1)
            for row, row_entropy in zip(rows, entropy, strict=True)
        ]
    )


def pairwise_distance(heads: Tensor) -> Tensor:
    """Compute the mean Euclidean distance of two different heads, a scalar.

    Args:
        heads: Vectors (..., H, D) of the heads for each item; an item is a sentence, or a frame of one.

    Raises:
        ValueError: There is a single head.
    """
    number = heads.size(-2)
    if number < 2:
        raise ValueError("one head has no distance to another; give at least 2 heads")
    first, second = torch.triu_indices(number, number, 1, device=heads.device)
    return (heads[..., first, :] - heads[..., second, :]).norm(dim=-1).mean()


def diversity_radius(vectors: Tensor, valid: Tensor | None = None) -> Tensor:
    """Compute the diversity, the geometric mean over axes of the standard deviation: vectors (..., N, D) -> (...).

    It is 0 if the vectors agree in an axis, and where none of them is valid. It is computed from logarithms, so that
    many small radii do not underflow.

    Args:
        vectors: N vectors of D numbers, such as the slots of a memory.
        valid: Vectors that count, such as filled slots, (..., N) bool; None counts all.
    """
    valid = None if valid is None else valid.unsqueeze(-1)
    deviation = vectors - masked_mean(vectors, valid, -2).unsqueeze(-2)
    variance = masked_mean(deviation.square(), valid, -2)
    return variance.log().mean(-1).div(2).exp()
