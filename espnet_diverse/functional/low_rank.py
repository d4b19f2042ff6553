"""Products with matrices of low rank, one for all samples or one chosen for each.

Hu et al. 2022, "LoRA: Low-rank adaptation of large language models", equation (3): h = W_0 x + B A x, with A (r, in)
and B (out, r) of a rank r that is much smaller than in and out. This is the second term.
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
