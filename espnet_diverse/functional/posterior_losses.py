"""The sums over posteriors in the losses (20), (21) and (23), each with its gradient in closed form.

In text these sums are over some twenty tokens, and their time is that of the calls of small operations, of which
autograd makes two to three for each one forward. Tensors have the tokens last, because narrow rows are slow.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Smallest 1 - p inside the logarithm of (21).
_CERTAIN = 1e-6


class Evidence(torch.autograd.Function):
    """log p(x) = log sum_c p(x, c): log joint and posteriors p (..., C, T) -> (..., T).

    The gradient is p, which gets none itself. As p is largest where the joint is, and then at least 1 / C,
    log p(x) = max_c log p(x, c) - log max_c p_c.
    """

    @staticmethod
    def forward(ctx, joint, p):
        ctx.save_for_backward(p)
        return joint.amax(-2) - p.amax(-2).log_()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad.unsqueeze(-2), None


class HeadPairCost(torch.autograd.Function):
    """-sum_t w_t sum_{h != h'} log(1 - sum_c a_hct b_h'ct): a, b (..., H, C, T), w (..., 1, T) -> ().

    It is (21) for a = (17) and b = the posteriors. 1 - p is clamped, which bounds the cost of a token; the gradient is
    then 0.
    """

    @staticmethod
    def forward(ctx, a, b, weights):
        pairs = _sum_over(-2, a.unsqueeze(-3), b.unsqueeze(-4))  # (..., H, H, T)
        pairs.diagonal(dim1=-3, dim2=-2).zero_()
        cost = torch.log1p(-pairs.clamp(max=1 - _CERTAIN)).mul_(weights.unsqueeze(-2))
        if any(ctx.needs_input_grad[:2]):
            slope = (weights.unsqueeze(-2) / (1 - pairs)).masked_fill_(pairs > 1 - _CERTAIN, 0.0)
            slope.diagonal(dim1=-3, dim2=-2).zero_()
            slope = slope.unsqueeze(-2)  # (..., H, H, 1, T)
            of_a, of_b = _sum_over(-3, slope, b.unsqueeze(-4)), _sum_over(-4, slope, a.unsqueeze(-3))
            ctx.save_for_backward(of_a, of_b)
        return -cost.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        da, db = ctx.saved_tensors
        return grad * da, grad * db, None


class PairwiseSquares(torch.autograd.Function):
    """sum_s [a_s sum_t (p_t . p_t - v_t)^2 + b_s sum_{t != t'} (p_t . p_t')^2]: p (..., C, T), v (..., 1, T) -> ().

    It is (23) for posteriors p that are 0 where v, of 0 and 1, is 0; a and b are (..., 1, 1), one for each sequence.
    """

    @staticmethod
    def forward(ctx, p, valid, diagonal, between):
        own = p.square().sum(-2, keepdim=True)  # (..., 1, T)
        missing = own - valid
        gram = torch.matmul(p, p.transpose(-2, -1))  # (..., C, C)
        off = gram.square().sum((-2, -1), keepdim=True) - own.square().sum(-1, keepdim=True)
        value = (diagonal * missing.square().sum(-1, keepdim=True) + between * off).sum()
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(4 * (torch.matmul(between * gram, p) + (diagonal * missing - between * own) * p))
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None, None, None


def _sum_over(dim: int, x: Tensor, y: Tensor) -> Tensor:
    """Compute (x * y).sum(dim) for broadcast x and y without storing the product; `dim` is negative, and short."""
    (first, second), *rest = zip(x.unbind(dim), y.unbind(dim), strict=True)
    total = first * second
    for left, right in rest:
        total.addcmul_(left, right)
    return total
