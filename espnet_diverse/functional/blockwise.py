"""SDMA's attention in blocks of scores: the context without the whole matrix of weights.

With posteriors P of the queries and R of the keys, A = softmax(Q K^T / sqrt(D)), U = A R and r_i = P_i . U_i, equations
(1), (2), (10) and (11) of the SDMA paper become one re-weighting of A by a matrix of rank C + 1, because the row
normaliser of (10) cancels in (2):

    Ahat = A o W,    W_ij = (1 - gamma) + w_i . R_j,    w_i = gamma P_i / r_i

and, with G the gradient of the context, T = (G V^T) o A, X = T R, delta = T 1, b_i = P_i . X_i / r_i, Z = T - b A:

    dV = (A o W)^T G                          dP_i = gamma (X_i - b_i U_i) / r_i        dR = Z^T w
    dS = Z o W - (1 - gamma) (delta - b) A    dQ and dK from the scores' gradient dS as in plain attention

The forward pass keeps the log-sum-exp of the scores and U, O(T (D + C)) numbers; the backward pass computes each block
of scores again. Blocks hold the scores times log2(e), for 2 ** x: on some CPUs PyTorch's exp2 takes a third of the time
of its exp. `mixed_attention.dense` computes the same with differentiable operations; short sequences take it without
gradients, and `whole_attention` with them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.mixed_attention import coefficients_of, dense, excluded, huge, with_ones
from espnet_diverse.functional.semantic import soften
from espnet_diverse.functional.shapes import broadcast
from espnet_diverse.functional.whole_attention import WholeMatrixAttention

#: Natural logarithms times this are logarithms in base 2.
LOG2_E = 1 / math.log(2)

ALL = slice(None)
Block = tuple[slice, slice, slice]


def sdma_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p_query: Tensor,
    p_key: Tensor,
    gamma: float | Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute the context of semantic mask attention, equations (1), (2), (10) and (11), without storing its weights.

    Args:
        q: Queries (..., H, Tq, D).
        k: Keys (..., H, Tk, D).
        v: Values (..., H, Tk, D).
        p_query: Posteriors of the queries (..., H, Tq, C).
        p_key: Posteriors of the keys (..., H, Tk, C).
        gamma: Mixing rate, a number or a scalar tensor; it gets no gradient.
        mask: Bool, True = may attend, broadcastable to (..., H, Tq, Tk).
        bias: Added to the scaled scores, broadcastable to (..., H, Tq, Tk).

    Returns:
        Context (..., H, Tq, D), zero for queries whose mask excludes all keys. Leading dimensions broadcast.

    Raises:
        ValueError: The precision is below single, or the mask is not bool.
    """
    if q.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"semantic mask attention in {q.dtype} is too coarse; give float32 or float64")
    lead = broadcast(*(x.shape[:-2] for x in (q, k, v, p_query, p_key)))

    def four_dimensional(x: Tensor, *matrix: int) -> Tensor:
        if x.dim() == 4 and x.shape[:2] == lead:
            return x
        return x.expand(*lead, *matrix).reshape(-1, lead[-1], *matrix)

    scores_shape = q.size(-2), k.size(-2)
    small = math.prod(lead) * math.prod(scores_shape) <= block_size(q.device) // 4
    if small and not torch.is_grad_enabled():
        return dense(q, k, v, p_query, p_key, gamma, mask, bias)
    p_query, p_key = soften(p_query).transpose(-2, -1), p_key.transpose(-2, -1)
    inputs = [four_dimensional(x, *x.shape[-2:]) for x in (q, k, v, p_query, p_key)]
    bias = None if bias is None else four_dimensional(bias, *scores_shape)
    if mask is not None:  # not expanded over heads and scores
        sizes = (1, 1, 1, *mask.shape)[-3:]
        mask = excluded(mask).view(torch.uint8).expand(*lead[:-1], *sizes).reshape(-1, *sizes)
    attention = WholeMatrixAttention if small else _SemanticMaskAttention
    context = attention.apply(*inputs, bias, mask, gamma, 1 / math.sqrt(q.size(-1)))
    return context.view(*lead, *context.shape[-2:])


def block_size(device: torch.device) -> int:
    """Return the number of scores in a block: on a CPU a few blocks must fit the cache, a GPU prefers large blocks."""
    return 2**19 if device.type == "cpu" else 2**24


def blocks(batch: int, heads: int, rows: int, columns: int, limit: int) -> Iterator[Block]:
    """Yield slices of (batch, heads, rows) with at most `limit` scores: whole samples, else whole heads, else rows."""
    steps = [max(1, limit // max(1, size)) for size in (heads * rows * columns, rows * columns, columns)]
    for b in range(0, batch, steps[0]):
        for h in range(0, heads, steps[1]):
            for r in range(0, rows, steps[2]):
                yield slice(b, b + steps[0]), slice(h, h + steps[1]), slice(r, r + steps[2])


@dataclass
class _Scores:
    """The scores times log2(e), one block at a time.

    Attributes:
        q: Queries (B, H, Tq, D).
        k: Keys (B, H, Tk, D).
        scale: Factor of q . k.
        bias: Added to the scaled scores, (B, H, Tq, Tk), or None.
        blocked: 1 at keys that the mask excludes, (B, 1 or H, 1 or Tq, 1 or Tk), or None.
    """

    q: Tensor
    k: Tensor
    scale: float
    bias: Tensor | None
    blocked: Tensor | None

    def blocks(self, count: int) -> Iterator[tuple[Block, Tensor, Tensor, list[Tensor]]]:
        """Yield for each block its slices, queries (G, rows, D), keys (G, Tk, D), and `count` tensors (G, rows, Tk).

        The first tensor holds the scores. The memory of the tensors is reused for the next block.
        """
        columns = self.k.size(2)
        memory = None
        batch, heads, rows = self.q.shape[:3]
        for block in blocks(batch, heads, rows, columns, block_size(self.q.device)):
            q, k = _pick(self.q, *block), _pick(self.k, *block[:2])
            if memory is None:  # the first block is the largest
                memory = q.new_empty(count, q.size(0) * q.size(1) * columns)
            tensors = [x[: q.size(0) * q.size(1) * columns].view(*q.shape[:2], columns) for x in memory]
            tensors[0].baddbmm_(q, k.transpose(1, 2), beta=0, alpha=self.scale * LOG2_E)
            self._bias_and_block(tensors[0], block)
            yield block, q, k, tensors

    def _bias_and_block(self, scores: Tensor, block: Block) -> None:
        if self.bias is not None:
            scores.add_(_pick(self.bias, *block), alpha=LOG2_E)
        if self.blocked is not None:
            cuts = zip(block, self.blocked.shape, strict=False)
            blocked = self.blocked[tuple(ALL if size == 1 else cut for cut, size in cuts)]
            by_sample = scores.view(*self.q[block].shape[:3], -1)
            by_sample.add_(blocked.to(scores.dtype), alpha=-huge(scores))  # many times faster than masked_fill


class _SemanticMaskAttention(torch.autograd.Function):
    """q, k, v, P^T, R^T, bias and blocked, all of four dimensions, gamma, scale -> context; see the module's equations.

    Tensors over clusters and queries are transposed, (C, Tq), because narrow rows are slow.
    """

    @staticmethod
    def forward(ctx, q, k, v, p_query, p_key, bias, blocked, gamma, scale):
        clusters = with_ones(p_key)
        context = torch.empty_like(q) if v.size(3) == q.size(3) else v.new_empty(*q.shape[:3], v.size(3))
        log_sum, u = q.new_empty(*q.shape[:2], 1, q.size(2)), torch.empty_like(p_query)
        for (b, h, rows), _, _, (weights, w) in _Scores(q, k, scale, bias, blocked).blocks(2):
            r, p = _pick(clusters, b, h), _pick(p_query, b, h, ALL, rows)
            top = weights.amax(-1, keepdim=True)
            top.masked_fill_(top < -huge(top) / 2, math.inf)  # without keys all weights become 0
            _exp2_(weights.sub_(top))
            sums = torch.bmm(r, weights.transpose(1, 2))
            share, total = sums[:, :-1], _nonzero(sums[:, -1:])
            coefficients = coefficients_of(p, _nonzero((p * share).sum(1, keepdim=True)), gamma, total)
            weights.mul_(torch.bmm(coefficients.transpose(1, 2), r, out=w))
            _multiply(weights, _pick(v, b, h), context[b, h, rows])
            _put(top.transpose(1, 2) + total.log2(), log_sum[b, h, :, rows])
            _put(share / total, u[b, h, :, rows])
        ctx.save_for_backward(q, k, v, p_query, clusters, bias, blocked, log_sum, u)
        ctx.gamma, ctx.scale = gamma, scale
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v, p_query, clusters, bias, blocked, log_sum, u = ctx.saved_tensors
        gamma = ctx.gamma
        norm = _nonzero((p_query * u).sum(2, keepdim=True))
        coefficients = coefficients_of(p_query, norm, gamma, torch.ones_like(norm))
        dq, dk, dv, dp = (torch.empty_like(x) for x in (q, k, v, p_query))
        dr = clusters.new_empty(*clusters.shape[:2], p_query.size(2), k.size(2))
        dbias = torch.empty_like(bias, memory_format=torch.contiguous_format) if ctx.needs_input_grad[5] else None
        scores = _Scores(q, k, ctx.scale, bias, blocked)
        for (b, h, rows), q_block, k_block, (a, w, t) in scores.blocks(3):
            add = rows.start > 0  # to the gradient of the same keys from earlier queries
            g, r, coefficient = _pick(grad, b, h, rows), _pick(clusters, b, h), _pick(coefficients, b, h, ALL, rows)
            p, block_norm = _pick(p_query, b, h, ALL, rows), _pick(norm, b, h, ALL, rows)
            _exp2_(a.sub_(_pick(log_sum, b, h, ALL, rows).transpose(1, 2)))
            torch.bmm(coefficient.transpose(1, 2), r, out=w)
            _multiply(torch.mul(a, w, out=t).transpose(1, 2), g, dv[b, h], add)
            torch.bmm(g, _pick(v, b, h).transpose(1, 2), out=t).mul_(a)
            sums = torch.bmm(r, t.transpose(1, 2))
            x, delta = sums[:, :-1], sums[:, -1:]
            b_row = (p * x).sum(1, keepdim=True) / block_norm
            _put(gamma * (x - b_row * _pick(u, b, h, ALL, rows)) / block_norm, dp[b, h, :, rows])
            z = t.addcmul_(a, b_row.transpose(1, 2), value=-1)
            _multiply(coefficient[:, :-1], z, dr[b, h], add)
            ds = z.mul_(w).addcmul_(a, ((1 - gamma) * (delta - b_row)).transpose(1, 2), value=-1)
            if dbias is not None:
                _put(ds, dbias[b, h, rows])
            _multiply(ds, k_block, dq[b, h, rows], scale=ctx.scale)
            _multiply(ds.transpose(1, 2), q_block, dk[b, h], add, ctx.scale)
        return dq, dk, dv, dp, dr, dbias, None, None, None


def _nonzero(x: Tensor) -> Tensor:
    """Return x with zeros, which belong to queries without keys, replaced by 1."""
    return x + (x == 0)


def _exp2_(x: Tensor) -> Tensor:
    """Compute 2 ** x in place, with 0 for results below the square root of the smallest normal number.

    Such weights are far below the rounding error; they and their products would be denormal, on which CPUs are slow.
    """
    return torch.threshold_(x.exp2_(), torch.finfo(x.dtype).tiny ** 0.5, 0.0)


def _pick(x: Tensor, b: slice, h: slice, *rest: slice) -> Tensor:
    """Return a block of x (B, H, ...) as (G, ...): a view for one sample, for several samples often a copy."""
    place = (b, h, *rest)
    return x[place].flatten(0, 1)


def _put(value: Tensor, to: Tensor) -> None:
    """Copy a block (G, ...) to its place `to` (b, h, ...)."""
    to.copy_(value.view(to.shape))


def _multiply(left: Tensor, right: Tensor, to: Tensor, add: bool = False, scale: float = 1.0) -> None:
    """Write scale * left @ right (G, ...) to its place `to` (b, h, ...), or add it there.

    Only blocks of one sample add, because `blocks` cuts rows only within one head and heads only within one sample.
    """
    if len(to) == 1:
        to[0].baddbmm_(left, right, beta=int(add), alpha=scale)
    else:
        _put(left.new_empty(len(left), *to.shape[2:]).baddbmm_(left, right, beta=0, alpha=scale), to)
