"""SDMA's attention with the whole matrix of weights and its gradient in closed form, for short sequences in training.

The equations are in `blockwise`, which computes them in blocks. Here A and W are kept for the backward pass, and there
are fewer operations than in blocks or in `mixed_attention.dense`, whose gradient comes from autograd.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.mixed_attention import huge


class WholeMatrixAttention(torch.autograd.Function):
    """q, k, v, P^T, R^T, bias and blocked, all of four dimensions, gamma, scale -> context.

    Takes the same arguments as `blockwise`'s function; with z = T - b A the gradient of the scores is
    z o W - (1 - gamma) (z 1) A.
    """

    @staticmethod
    def forward(ctx, q, k, v, p_query, p_key, bias, blocked, gamma, scale):
        batch, heads, rows, _ = q.shape
        q, k, v, p, r = (x.flatten(0, 1) for x in (q, k, v, p_query, p_key))
        scores = torch.baddbmm(_nothing(q), q, k.transpose(1, 2), beta=0, alpha=scale)
        by_sample = scores.view(batch, heads, rows, -1)
        if bias is not None:
            by_sample.add_(bias)
        if blocked is not None:
            by_sample.add_(blocked.to(scores.dtype), alpha=-huge(scores))
        weights = scores.softmax(-1)
        if blocked is not None:  # the softmax of a query without keys is uniform
            weights.view_as(by_sample).mul_(1 - blocked.amin(-1, keepdim=True))
        u = torch.bmm(r, weights.transpose(1, 2))
        norm = (p * u).sum(1, keepdim=True)
        norm += norm == 0
        coefficients = gamma * p / norm
        w = torch.bmm(coefficients.transpose(1, 2), r).add_(1 - gamma)
        ctx.save_for_backward(q, k, v, p, r, weights, w, u, norm, coefficients)
        ctx.gamma, ctx.scale, ctx.heads = gamma, scale, (batch, heads)
        return torch.bmm(weights * w, v).unflatten(0, ctx.heads)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v, p, r, weights, w, u, norm, coefficients = ctx.saved_tensors
        grad = grad.flatten(0, 1)
        dv = torch.bmm((weights * w).transpose(1, 2), grad)
        t = torch.bmm(grad, v.transpose(1, 2)).mul_(weights)
        x = torch.bmm(r, t.transpose(1, 2))
        b = (p * x).sum(1, keepdim=True) / norm
        dp = ctx.gamma * (x - b * u) / norm
        z = t.addcmul_(weights, b.transpose(1, 2), value=-1)
        dr = torch.bmm(coefficients, z)
        row_sums = (1 - ctx.gamma) * z.sum(-1, keepdim=True)
        ds = z.mul_(w).addcmul_(weights, row_sums, value=-1)
        dq = torch.baddbmm(_nothing(q), ds, k, beta=0, alpha=ctx.scale)
        dk = torch.baddbmm(_nothing(k), ds.transpose(1, 2), q, beta=0, alpha=ctx.scale)
        dq, dk, dv, dp, dr, dbias = (x.unflatten(0, ctx.heads) for x in (dq, dk, dv, dp, dr, ds))
        return dq, dk, dv, dp, dr, dbias if ctx.needs_input_grad[5] else None, None, None, None


def _nothing(x: Tensor) -> Tensor:
    """Return a scalar for `baddbmm` to ignore, with beta 0; it broadcasts to any shape."""
    return x.new_empty(())
