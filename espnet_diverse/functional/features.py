"""Random features: maps phi with E[phi(x) . phi(y)] = kernel(x, y), for attention in linear time.

    positive:      phi(x) = exp(W x - |x|^2 / 2) / sqrt(R)                  kernel exp(x . y)                     (1)
    trigonometric: phi(x) = [sin(W x), cos(W x)] / sqrt(R)                  kernel exp(-|x - y|^2 / 2)            (2)

W (R, D) has rows w ~ N(0, I). With rows ~ N(0, I / sigma^2) the kernel of (2) is exp(-|x - y|^2 / (2 sigma^2)).
Positive: Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1; orthogonal rows: section 2.4.
Trigonometric: Rahimi and Recht 2007, "Random Features for Large-Scale Kernel Machines"; for attention Peng et al. 2021,
"Random Feature Attention", equation (4).

    context_i = phi(q_i) . sum_j phi(k_j) v_j^T / phi(q_i) . sum_j phi(k_j)                                       (3)

Keys may have a factor exp(s_j) each, with which maps such as (1) stay in the range of floating point. In causal form
(3) is summed in blocks of S positions; with m_i the greatest s up to i and State the sum over the blocks before,

    State = sum_j exp(s_j - m) phi(k_j) [v_j, 1]^T,    weight_ij = phi(q_i) . phi(k_j) exp(s_j - m_i) in a block  (4)
"""

import math

import torch
from torch import Tensor

from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.running_sums import Sums, with_one

_BLOCK = 64
"""Positions of a block of (4)."""


def scaled_positive(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Map by (1) without a factor of each x, and the logarithm of the factor, (..., R) and (...).

    x is (..., D) and w (R, D). The greatest feature is then 1, whatever the size of x. Scaled by D^(-1/4), queries and
    keys give softmax attention.
    """
    products = x.contiguous() @ w.transpose(-2, -1)  # one product of matrices, not one for each head
    top = products.detach().amax(-1)
    scaled = products - top.unsqueeze(-1)
    features = scaled.exp() if torch.is_grad_enabled() else scaled.exp_()
    return features, top - x.square().sum(-1) / 2 - math.log(len(w)) / 2


def trigonometric(x: Tensor, w: Tensor) -> Tensor:
    """Map by (2): x (..., D), w (R, D) -> (..., 2 R), sines first."""
    angles = x @ w.transpose(-2, -1)
    return torch.cat([angles.sin(), angles.cos()], dim=-1) / math.sqrt(len(w))


def gaussian(count: int, width: int, orthogonal: bool, generator: torch.Generator) -> Tensor:
    """Draw W (count, width) with rows ~ N(0, I), float32.

    Args:
        count: Number of rows R.
        width: Width D of a row.
        orthogonal: Whether each D successive rows are orthogonal; each row alone is still ~ N(0, I).
        generator: Source of the draws.
    """
    rows = torch.randn(count, width, generator=generator, dtype=torch.float32)
    if not orthogonal:
        return rows
    squares = torch.randn(-(-count // width), width, width, generator=generator, dtype=torch.float32)
    q, r = torch.linalg.qr(squares)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)  # uniform over all rotations; LAPACK's Q alone is not
    return q.flatten(0, 1)[:count] * rows.norm(dim=-1, keepdim=True)


def feature_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    floor: Tensor | float,
    mask: Tensor | None = None,
    before: Sums | None = None,
) -> Tensor:
    """Compute (3) for any mask: in O((Tq + Tk) R D) time where all queries see the same keys, else in O(Tq Tk R).

    Args:
        q: Features of the queries (B, H, Tq, R).
        k: Features of the keys (B, H, Tk, R).
        v: Values (B, H, Tk, D).
        s: Logarithms of the factors of the keys, (B, H, Tk).
        floor: Least denominator of (3), with the greatest factor of a query's keys as 1; a number or (B, 1, Tq, 1).
        mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk).
        before: Sums over further keys that the queries may attend to; Tk may then be 0.

    Returns:
        Context (B, H, Tq, D), zero for queries that may attend to nothing.
    """
    if before is not None and not k.size(2):
        return _divided(before.read(q), floor)
    s = s.unsqueeze(-2)
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    top = s.amax(-1, keepdim=True)
    if before is not None:
        earlier = before.chosen(before.top)
        top = torch.maximum(top, earlier)
    factors = (s - top).exp()
    if mask is not None:
        factors = factors.masked_fill(~mask, 0.0)
    if factors.size(-2) == 1 and before is None:
        return _divided(q @ ((k * factors.transpose(-2, -1)).transpose(-2, -1) @ with_one(v)), floor)
    sums = (q @ k.transpose(-2, -1) * factors) @ with_one(v)
    if before is not None:
        sums = sums + (earlier - top).exp() * before.read(q)
    return _divided(sums, floor)


def causal_feature_attention(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, floor: Tensor | float, valid: Tensor | None = None
) -> Tensor:
    """Compute (3) by (4), over all keys up to the query's own, in O(T R (S + D)) time with blocks of S.

    valid is bool, True = may be attended to, broadcastable to (B, 1, T); the other arguments are as in
    `feature_attention`, with Tq = Tk.
    """
    if valid is not None:
        s = s.masked_fill(~valid, torch.finfo(s.dtype).min / 2)
        k = k.masked_fill(~valid.unsqueeze(-1), 0.0)
    v, top = with_one(v), s.cummax(-1).values
    before, state = top[..., :1], k.new_zeros(*k.shape[:2], k.size(-1), v.size(-1))
    parts = []
    # `split`, because the gradient of each slice would be as long as the whole
    for q_n, k_n, v_n, s_n, top_n in zip(*(x.split(_BLOCK, 2) for x in (q, k, v, s, top)), strict=True):
        later = ~causal(q_n.size(2), k.device)
        factors = (s_n.unsqueeze(-2) - top_n.unsqueeze(-1)).masked_fill(later, -torch.inf).exp()
        weights = q_n @ k_n.transpose(-2, -1) * factors
        parts.append((before - top_n).exp().unsqueeze(-1) * (q_n @ state) + weights @ v_n)
        last = top_n[..., -1:]
        sums = (k_n * (s_n - last).exp().unsqueeze(-1)).transpose(-2, -1) @ v_n
        before, state = last, (before - last).exp().unsqueeze(-1) * state + sums
    return _divided(torch.cat(parts, dim=2), floor)


def _divided(sums: Tensor, floor: Tensor | float) -> Tensor:
    """Divide the numerators of (3) by their denominators, the last column."""
    return sums[..., :-1] / sums[..., -1:].clamp(min=floor)
