"""SDMA's attention in blocks of scores: the context without a whole matrix of weights.

With posteriors P of the queries and R of the keys, A = softmax(Q K^T / sqrt(D)), U = A R and r_i = P_i . U_i, equations
(1), (2), (10) and (11) of the SDMA paper become one re-weighting of A by a matrix of rank C + 1, because the row
normaliser of (10) cancels in (2):

    Ahat = A o W,    W_ij = (1 - gamma) + w_i . R_j,    w_i = gamma P_i / r_i

and, with G the gradient of the context, T = (G V^T) o A, X = T R, delta = T 1, b_i = P_i . X_i / r_i, Z = T - b A:

    dV = (A o W)^T G                          dP_i = gamma (X_i - b_i U_i) / r_i        dR = Z^T w
    dS = Z o W - (1 - gamma) (delta - b) A    dQ and dK from the scores' gradient dS as in plain attention

Forward keeps the log-sum-exp of the scores and U, O(T (D + C)) numbers; backward computes each block of scores again.
Blocks hold scores times log2(e) for 2 ** x: on some CPUs PyTorch's exp2 takes a third of the time of its exp.
`dense` is the same in plain differentiable steps, for when weights are wanted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.semantic import soften

#: Natural logarithms times this are logarithms in base 2.
LOG2_E = 1 / math.log(2)

Block = tuple[slice, slice, slice]


def sdma_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Context of semantic mask attention, equations (1), (2), (10) and (11), without materialising its weights.

    Args:
        q: Queries (..., H, Tq, D).
        k: Keys (..., H, Tk, D).
        v: Values (..., H, Tk, D).
        p_query: Posteriors of the queries (..., H, Tq, C).
        p_key: Posteriors of the keys (..., H, Tk, C).
        gamma: Mixing rate, a number or a scalar tensor; it gets no gradient.
        mask: Bool, True = may attend, broadcastable to (..., H, Tq, Tk).
        scale: Factor of the scores q . k; 1 / sqrt(D) unless given.
        bias: Added to the scaled scores, broadcastable to (..., H, Tq, Tk).

    Returns:
        (..., H, Tq, D), zeros for queries that may attend to nothing. Leading dimensions broadcast.

    Raises:
        ValueError: The precision is below single, or the mask is not bool.
    """
    if q.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"semantic mask attention in {q.dtype} is too coarse; give float32 or float64")
    leads = {x.shape[:-2] for x in (q, k, v, p_query, p_key)}
    lead = leads.pop() if len(leads) == 1 else torch.broadcast_shapes(*leads)

    def four_dimensional(x: Tensor, *matrix: int) -> Tensor:
        return x.expand(*lead, *matrix).reshape(-1, lead[-1], *matrix)

    scores_shape = q.size(-2), k.size(-2)
    if math.prod(lead) * math.prod(scores_shape) <= block_size(q.device) // 4:  # so small, plain steps are quicker
        return dense(q, k, v, p_query, p_key, gamma, mask, scale, bias)[0]
    inputs = [four_dimensional(x, *x.shape[-2:]) for x in (q, k, v, soften(p_query), p_key)]
    bias = None if bias is None else four_dimensional(bias, *scores_shape)
    blocked = None if mask is None else four_dimensional(_blocked(mask).view(torch.uint8), *scores_shape)
    context = _SemanticMaskAttention.apply(*inputs, bias, blocked, gamma, _scale(q, scale))
    return context.view(*lead, *context.shape[-2:])


def mixed_weights(
    q: Tensor,
    k: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Ahat = A o W: arguments of `sdma_attention` without values -> (..., H, Tq, Tk), in plain differentiable steps."""
    scores = torch.matmul(q * _scale(q, scale), k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores - _blocked(mask).to(scores.dtype) * _huge(scores)
    weights = scores.softmax(-1)
    p_query = soften(p_query)
    norm = (p_query * torch.matmul(weights, p_key)).sum(-1, keepdim=True)
    coefficients = _coefficients(p_query, norm, gamma, torch.ones_like(norm))
    if mask is not None:  # a query that may attend to nothing has attended to all alike
        coefficients = coefficients * mask.any(-1, keepdim=True)
    return weights * torch.matmul(coefficients, _clusters_first(p_key))


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`sdma_attention` with its weights: the same arguments -> context (..., H, Tq, D), Ahat (..., H, Tq, Tk)."""
    weights = mixed_weights(q, k, p_query, p_key, gamma, mask, scale, bias)
    return torch.matmul(weights, v), weights


def block_size(device: torch.device) -> int:
    """Scores in a block: on a CPU a few blocks must fit the cache, elsewhere few large ones are better."""
    return 2**19 if device.type == "cpu" else 2**24


def blocks(batch: int, heads: int, rows: int, columns: int, limit: int) -> Iterator[Block]:
    """Slices of (batch, heads, rows) with at most `limit` scores: whole samples, else whole heads, else rows."""
    steps = [max(1, limit // max(1, size)) for size in (heads * rows * columns, rows * columns, columns)]
    for b in range(0, batch, steps[0]):
        for h in range(0, heads, steps[1]):
            for r in range(0, rows, steps[2]):
                yield slice(b, b + steps[0]), slice(h, h + steps[1]), slice(r, r + steps[2])


@dataclass
class _Scores:
    """The scores times log2(e), one block at a time.

    Attributes: q (B, H, Tq, D), k (B, H, Tk, D), scale of q . k, bias and blocked (B, H, Tq, Tk) or None.
    """

    q: Tensor
    k: Tensor
    scale: float
    bias: Tensor | None
    blocked: Tensor | None

    def blocks(self, count: int) -> Iterator[tuple[Block, list[Tensor]]]:
        """Each block's slices, its scores and `count` - 1 spare tensors alike (G, rows, Tk) in memory used again."""
        columns = self.k.size(2)
        memory = None
        for block in blocks(*self.q.shape[:3], columns, block_size(self.q.device)):
            q = _pick(self.q, *block)
            if memory is None:  # the first block is the largest
                memory = self.q.new_empty(count, q.size(0) * q.size(1) * columns)
            tensors = [x[: q.size(0) * q.size(1) * columns].view(*q.shape[:2], columns) for x in memory]
            self._fill(tensors[0], tensors[1], q, block)
            yield block, tensors

    def _fill(self, scores: Tensor, spare: Tensor, q: Tensor, block: Block) -> None:
        scores.baddbmm_(q, _pick(self.k, *block[:2]).transpose(1, 2), beta=0, alpha=self.scale * LOG2_E)
        if self.bias is not None:
            scores.add_(_pick(self.bias, *block), alpha=LOG2_E)
        if self.blocked is not None:
            blocked = self.blocked[block]
            spare.view(blocked.shape).copy_(blocked)  # bytes to numbers: many times quicker than a fill by bool
            scores.add_(spare, alpha=-_huge(scores))


class _SemanticMaskAttention(torch.autograd.Function):
    """q, k, v, P, R, bias and blocked, all of four dimensions, gamma, scale -> context; see the module's equations."""

    @staticmethod
    def forward(ctx, q, k, v, p_query, p_key, bias, blocked, gamma, scale):
        scores = _Scores(q.contiguous(), k.contiguous(), scale, bias, blocked)
        v, p_query = v.contiguous(), p_query.contiguous()
        clusters = _clusters_first(p_key)
        context = q.new_empty(*q.shape[:3], v.size(3))
        log_sum, u = q.new_empty(*q.shape[:3], 1), torch.empty_like(p_query)
        for block, (weights, w) in scores.blocks(2):
            r, p = _pick(clusters, *block[:2]), _pick(p_query, *block)
            top = weights.amax(-1, keepdim=True)
            top.masked_fill_(top < -_huge(top) / 2, math.inf)  # nothing to attend to: all weights become 0
            _exp2_(weights.sub_(top))
            sums = torch.bmm(r, weights.transpose(1, 2)).transpose(1, 2)
            share, total = sums[..., :-1], _nonzero(sums[..., -1:])
            coefficients = _coefficients(p, _nonzero((p * share).sum(-1, keepdim=True)), gamma, total)
            weights.mul_(torch.bmm(coefficients, r, out=w))
            torch.bmm(weights, _pick(v, *block[:2]), out=_pick(context, *block))
            _pick(log_sum, *block).copy_(top + total.log2())
            _pick(u, *block).copy_(share / total)
        ctx.save_for_backward(scores.q, scores.k, v, p_query, clusters, bias, blocked, log_sum, u)
        ctx.gamma, ctx.scale = gamma, scale
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v, p_query, clusters, bias, blocked, log_sum, u = ctx.saved_tensors
        grad, gamma = grad.contiguous(), ctx.gamma
        norm = _nonzero((p_query * u).sum(-1, keepdim=True))
        coefficients = _coefficients(p_query, norm, gamma, torch.ones_like(norm))
        dq, dk, dv, dp = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v), torch.empty_like(p_query)
        dr = p_query.new_zeros(*clusters.shape[:2], p_query.size(3), k.size(2))
        dbias = torch.empty_like(bias, memory_format=torch.contiguous_format) if ctx.needs_input_grad[5] else None
        for block, (a, w, t, product) in _Scores(q, k, ctx.scale, bias, blocked).blocks(4):
            lead = block[:2]
            g, r, coefficient = _pick(grad, *block), _pick(clusters, *lead), _pick(coefficients, *block)
            p, block_norm = _pick(p_query, *block), _pick(norm, *block)
            _exp2_(a.sub_(_pick(log_sum, *block)))
            torch.bmm(coefficient, r, out=w)
            _pick(dv, *lead).baddbmm_(torch.mul(a, w, out=product).transpose(1, 2), g)
            torch.bmm(g, _pick(v, *lead).transpose(1, 2), out=t).mul_(a)
            sums = torch.bmm(r, t.transpose(1, 2)).transpose(1, 2)
            x, delta = sums[..., :-1], sums[..., -1:]
            b = (p * x).sum(-1, keepdim=True) / block_norm
            _pick(dp, *block).copy_(gamma * (x - b * _pick(u, *block)) / block_norm)
            z = t.addcmul_(a, b, value=-1)
            _pick(dr, *lead).baddbmm_(coefficient[..., :-1].transpose(1, 2), z)
            ds = z.mul_(w).addcmul_(a, (1 - gamma) * (delta - b), value=-1)
            if dbias is not None:
                _pick(dbias, *block).copy_(ds)
            _pick(dq, *block).baddbmm_(ds, _pick(k, *lead), beta=0, alpha=ctx.scale)
            _pick(dk, *lead).baddbmm_(ds.transpose(1, 2), _pick(q, *block), alpha=ctx.scale)
        return dq, dk, dv, dp, dr.transpose(2, 3), dbias, None, None, None


def _scale(q: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(q.size(-1)) if scale is None else scale


def _blocked(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise ValueError(f"the mask is {mask.dtype}; give bool, True = may attend")
    return ~mask


def _huge(x: Tensor) -> float:
    """What is taken from the score of a key that may not be attended: finite, so that no inf - inf arises."""
    return torch.finfo(x.dtype).max / 2


def _nonzero(x: Tensor) -> Tensor:
    """x, with 1 for the zeros of queries that may attend to nothing."""
    return x + (x == 0)


def _coefficients(p: Tensor, norm: Tensor, gamma: float | Tensor, total: Tensor) -> Tensor:
    """[gamma P / r, (1 - gamma) / total], the left factor of W: p (..., C), norm and total (..., 1) -> (..., C + 1)."""
    return torch.cat([gamma * p / norm, (1 - gamma) / total], -1)


def _clusters_first(p_key: Tensor) -> Tensor:
    """R^T, on which products are quicker, and a row of ones, which gives row sums: (..., Tk, C) -> (..., C + 1, Tk)."""
    return F.pad(p_key.transpose(-2, -1), (0, 0, 0, 1), value=1.0)


def _exp2_(x: Tensor) -> Tensor:
    """2 ** x in place for x <= 0, with 0 below the root of the smallest normal number.

    Such weights are far below rounding; kept, they and their products would be denormal, on which CPUs are slow.
    """
    lowest = math.log2(torch.finfo(x.dtype).tiny) / 2
    return F.threshold_(x.clamp_(min=lowest).exp2_(), 2 * 2**lowest, 0.0)


def _pick(x: Tensor, b: slice, h: slice, r: slice = slice(None)) -> Tensor:
    """A block of x (B, H, T, ...) as (G, rows, ...). Of a contiguous x it is a view, because `blocks` cuts rows only
    within one head and heads only within one sample."""
    return x[b, h, r].flatten(0, 1)
