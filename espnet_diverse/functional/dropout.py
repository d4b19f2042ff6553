"""Dropout (Srivastava et al. 2014, section 4) with a mask from 16 random bits for each element, for CPUs.

    y_i = m_i x_i / (1 - p),    m_i = 0 with probability p, else 1

m_i is 0 where a uniform integer of 16 bits is among the p 2^16 smallest. PyTorch draws a Bernoulli variable for each
element, which takes several times as long as the other steps together.
"""

import torch
from torch import Tensor

LEVELS = 2**16


def dropout(x: Tensor, rate: float) -> Tensor:
    """Set elements of x (...) to 0 with probability `rate`, rounded to a multiple of 2^-16, and scale the others up.

    Raises:
        ValueError: The rate is not at least 0 and less than 1.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout rate {rate} is not allowed; give 0 <= rate < 1")
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    return _Dropout.apply(x, dropped) if dropped else x


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dropped: int) -> Tensor:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # 64 bits for 4 elements
        mask = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
        factors = mask.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor):
        (factors,) = ctx.saved_tensors
        return gradient * factors, None
