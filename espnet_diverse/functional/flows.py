"""Normalising flows for sequences: ActNorm, invertible linear maps, affine coupling.

Kingma and Dhariwal 2018, "Glow: generative flow with invertible 1x1 convolutions", Table 1; for sequences Ma et al.
2019, "FlowSeq: non-autoregressive conditional sequence generation with generative flow", section 3.3:

    ActNorm             y_t = s (.) x_t + b                                                             (1)
    invertible linear   y_tg = W x_tg for each group g of features                                      (2)
    affine coupling     y_a = x_a,  y_b = s(x_a) (.) x_b + b(x_a)                                       (3)

The density of x = f^-1(y) is p(x) = p(y) |det df/dx|, with the log-determinants

    (1)  sum_t sum_i log |s_i|      (2)  G sum_t log |det W|      (3)  sum_t sum_i log |s_i(x_a)_t|     (4)

Sums run over the T valid positions. At padding y is 0, and x there changes nothing. Scales are given as logarithms, so
that they are positive. The halves a and b of the features in (3) are the first and the last M / 2. A group of (2) takes
every G-th feature, so it has features of both halves, and W mixes them.

Shapes: x and y (B, T, M), valid (B, T) bool, log-determinants (B,).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Net = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From x_a (B, T, M / 2) to log s and b of (3), (B, T, M / 2) each."""


def actnorm(x: Tensor, log_scale: Tensor, bias: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Compute (1): log_scale and bias (M,) -> y and its log-determinant."""
    return _masked(x * log_scale.exp() + bias, valid), valid.sum(1) * log_scale.sum()


def actnorm_inverse(y: Tensor, log_scale: Tensor, bias: Tensor, valid: Tensor) -> Tensor:
    """Invert (1): the x of `actnorm`, 0 at padding."""
    return _masked((y - bias) * (-log_scale).exp(), valid)


def invertible_linear(x: Tensor, weight: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Compute (2): weight W (M / G, M / G) -> y and its log-determinant."""
    y = torch.einsum("ij,btjg->btig", weight, _groups(x, weight)).flatten(2)
    groups = x.size(2) // len(weight)
    return _masked(y, valid), valid.sum(1) * groups * torch.linalg.slogdet(weight).logabsdet


def invertible_linear_inverse(y: Tensor, weight: Tensor, valid: Tensor) -> Tensor:
    """Invert (2): the x of `invertible_linear`, 0 at padding."""
    return _masked(torch.linalg.solve(weight, _groups(y, weight)).flatten(2), valid)


def affine_coupling(x: Tensor, net: Net, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Compute (3) with log s and b of `net` -> y and its log-determinant; `net` must not read padding."""
    x_a, x_b = x.chunk(2, dim=-1)
    log_scale, bias = net(_masked(x_a, valid))
    y = torch.cat([x_a, x_b * log_scale.exp() + bias], -1)
    return _masked(y, valid), _masked(log_scale, valid).sum((1, 2))


def affine_coupling_inverse(y: Tensor, net: Net, valid: Tensor) -> Tensor:
    """Invert (3): the x of `affine_coupling`, 0 at padding."""
    y_a, y_b = y.chunk(2, dim=-1)
    log_scale, bias = net(_masked(y_a, valid))
    return _masked(torch.cat([y_a, (y_b - bias) * (-log_scale).exp()], -1), valid)


def normal_log_density(x: Tensor, mean: Tensor, log_var: Tensor, valid: Tensor) -> Tensor:
    """Return log N(x; mean, exp(log_var)) in nats, summed over valid positions: (B, T, M) each -> (B,)."""
    density = -0.5 * ((x - mean).square() * (-log_var).exp() + log_var + math.log(2 * math.pi))
    return _masked(density, valid).sum((1, 2))


def _groups(x: Tensor, weight: Tensor) -> Tensor:
    """(B, T, M) -> (B, T, M / G, G)."""
    return x.unflatten(2, (len(weight), -1))


def _masked(x: Tensor, valid: Tensor) -> Tensor:
    return x.masked_fill(~valid.unsqueeze(-1), 0.0)
