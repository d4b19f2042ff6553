"""Products with matrices of low rank, one for all samples or one chosen for each.

Hu et al. 2022, "LoRA: Low-rank adaptation of large language models", equation (3): h = W_0 x + B A x, with A (r, in)
and B (out, r) of a rank r that is much smaller than in and out. `low_rank` is the second term.

Liu et al. 2024, "DoRA: Weight-decomposed low-rank adaptation", equation (5), gives each output a magnitude m in
addition to the direction of its weights:

    h_i = m_i / |W_i| (W x)_i,    W = W_0 + B A

with W_i the weights of output i. Their length counts as a constant in the gradient (equation 11).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def low_rank(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Compute B A x of each sample: x (N, ..., in), a (N or 1, r, in), b (N or 1, out, r) -> (N, ..., out)."""
    if len(a) == 1:
        return F.linear(F.linear(x, a[0]), b[0])
    rows = x.reshape(len(x), -1, x.size(-1))
    product = torch.bmm(torch.bmm(rows, a.transpose(1, 2)), b.transpose(1, 2))
    return product.view(*x.shape[:-1], b.size(1))


def magnitude_scale(weight: Tensor, change: Tensor, magnitude: Tensor) -> Tensor:
    """Compute m_i / |W_i|, without a gradient through |W_i|.

    Args:
        weight: W_0 (out, in).
        change: B A with its factor, (..., out, in).
        magnitude: m (..., out).

    Returns:
        Factors of the outputs, (..., out); 1 where W_i is 0 and has no direction.
    """
    length = torch.linalg.vector_norm((weight + change).detach(), dim=-1)
    return torch.where(length > 0, magnitude / length.masked_fill(length == 0, 1.0), 1.0)
