"""The sums over posteriors in the losses (20), (21) and (23), each with its gradient in closed form.

For text these sums are over about twenty tokens, and their time is dominated by the overhead of small operations;
autograd runs two to three of them for each forward operation. Tensors have the tokens in the last dimension, because
narrow rows are slow.
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
        by_head_a, by_head_b = a.unsqueeze(-3), b.unsqueeze(-4)
        pairs = _sum_over(-2, by_head_a, by_head_b).clamp_(max=1 - _CERTAIN)  # (..., H, H, T)
        pairs.diagonal(dim1=-3, dim2=-2).zero_()
        weights = weights.unsqueeze(-2)
        if any(ctx.needs_input_grad[:2]):
            slope = (weights / (1 - pairs)).masked_fill_(pairs == 1 - _CERTAIN, 0.0)
            slope.diagonal(dim1=-3, dim2=-2).zero_()
            slope = slope.unsqueeze(-2)  # (..., H, H, 1, T)
            ctx.save_for_backward(_sum_over(-3, slope, by_head_b), _sum_over(-4, slope, by_head_a))
        cost = pairs.neg_().log1p_().mul_(weights)
        return -cost.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        da, db = ctx.saved_tensors
        return grad * da, grad * db, None


class PairwiseSquares(torch.autograd.Function):
    """sum_s [a_s sum_t v_t (p_t . p_t - 1)^2 + b_s sum_{t != t'} v_t v_t' (p_t . p_t')^2]: p (..., C, T) -> ().

    It is (23) for v (..., 1, T), which is 1 for tokens that count and else 0; a and b, one for each sequence s, are
    (..., 1, 1).
    """

    @staticmethod
    def forward(ctx, p, valid, diagonal, between):
        p = p * valid
        squared_norm = p.square().sum(-2, keepdim=True)  # (..., 1, T)
        missing = squared_norm - valid
        gram = torch.matmul(p, p.transpose(-2, -1))  # (..., C, C)
        off = gram.square().sum((-2, -1), keepdim=True) - squared_norm.square().sum(-1, keepdim=True)
        value = (diagonal * missing.square().sum(-1, keepdim=True) + between * off).sum()
        if ctx.needs_input_grad[0]:
            gradient = torch.matmul(4 * between * gram, p)
            ctx.save_for_backward(gradient.addcmul_(4 * (diagonal * missing - between * squared_norm), p))
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
