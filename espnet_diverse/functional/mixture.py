"""Mixtures of Gaussians with diagonal covariance: equations (5), (9) and (18) of the SDMA paper.

    p(x, c) = pi_c N(x; mu_c, diag(sigma_c^2)),    p(c | x) = p(x, c) / sum_c' p(x, c')

The squared Mahalanobis distance is expanded, x^2 (1/sigma^2) - 2 x (mu/sigma^2) + mu^2/sigma^2, into two matrix
products, so that no (T, C, D) tensor of differences is built.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Smallest variance; a logarithm below its own is clamped, so that no cluster collapses onto one token.
VARIANCE_FLOOR = 1e-4


def floored(log_var: Tensor) -> Tensor:
    """Logarithm of the variance, no smaller than that of `VARIANCE_FLOOR`: log_var (...) -> (...)."""
    return log_var.clamp(min=math.log(VARIANCE_FLOOR))


def log_density(x: Tensor, log_prior: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """log p(x, c) for each token and cluster; its log-sum-exp over clusters is the log-likelihood (18).

    Args:
        x: Tokens (..., T, D).
        log_prior: Cluster weights as logits (..., C): a log-softmax normalises them here, which leaves logarithms of
            probabilities as they are.
        mean: Centroids (..., C, D).
        log_var: Logarithms of the variances (..., C, D), floored.

    Returns:
        (..., T, C); the leading dimensions broadcast.
    """
    log_var = floored(log_var)
    precision = torch.exp(-log_var)
    scaled = mean * precision
    normaliser = (math.log(2 * math.pi) + log_var + mean * scaled).sum(-1) / 2
    lead = torch.broadcast_tensors(x[..., 0, 0], mean[..., 0, 0])[0].shape
    flat = [y.expand(*lead, *y.shape[-2:]).reshape(-1, *y.shape[-2:]) for y in (x, precision / 2, scaled)]
    distance = _Quadratic.apply(*flat).view(*lead, *mean.shape[-2:-1], *x.shape[-2:-1])
    return ((log_prior.log_softmax(-1) - normaliser).unsqueeze(-1) - distance).transpose(-2, -1)


class _Quadratic(torch.autograd.Function):
    """a x^2 - b x: x (N, T, D), a and b (N, C, D) -> (N, C, T), clusters first because narrow rows are slow.

    Plain autograd would mix layouts in its backward, at several times the cost.
    """

    @staticmethod
    def forward(ctx, x, a, b):
        x = x.contiguous()
        ctx.save_for_backward(x, a, b)
        return torch.bmm(a, x.square().transpose(1, 2)).baddbmm_(b, x.transpose(1, 2), alpha=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, a, b = ctx.saved_tensors
        by_token, square = grad.transpose(1, 2), x.square()
        da, db = torch.bmm(grad, square), -torch.bmm(grad, x)
        dx = torch.bmm(by_token, 2 * a, out=square).mul_(x).baddbmm_(by_token, b, alpha=-1)
        return dx, da, db


def posterior(log_joint: Tensor) -> Tensor:
    """p(c | x) = p(x, c) / p(x), equation (9), from `log_density`: (..., T, C) -> (..., T, C)."""
    return log_joint.transpose(-2, -1).softmax(-2).transpose(-2, -1)


def responsibility(x: Tensor, log_prior: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Posterior cluster probabilities p(c | x), equation (9): arguments of `log_density` -> (..., T, C)."""
    return posterior(log_density(x, log_prior, mean, log_var))
