"""Mixtures of Gaussians with diagonal covariance: equations (5), (9) and (18) of the SDMA paper.

    p(x, c) = pi_c N(x; mu_c, diag(sigma_c^2)),    p(c | x) = p(x, c) / sum_c' p(x, c')

The squared Mahalanobis distance is expanded into two matrix products, x^2 (1/sigma^2) - 2 x (mu/sigma^2) +
mu^2/sigma^2, so no tensor (T, C, D) of differences is stored. It is a difference of large sums: TF32 is off.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.precision import without_tf32
from espnet_diverse.functional.shapes import broadcast

#: Smallest variance; smaller ones are clamped, so that no cluster collapses onto one token.
VARIANCE_FLOOR = 1e-4


def floored(log_var: Tensor) -> Tensor:
    """Clamp logarithms of variances (...) at the logarithm of `VARIANCE_FLOOR`."""
    return log_var.clamp(min=math.log(VARIANCE_FLOOR))


def log_density(x: Tensor, log_prior: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Compute log p(x, c) for each token and cluster; its log-sum-exp over clusters is the log-likelihood (18).

    Args:
        x: Tokens (..., T, D).
        log_prior: Cluster weights as logits (..., C), which are normalised here by a log-softmax.
        mean: Centroids (..., C, D).
        log_var: Logarithms of the variances (..., C, D), floored.

    Returns:
        (..., T, C); the leading dimensions broadcast.
    """
    lead = broadcast(x.shape[:-2], mean.shape[:-2])
    log_prior, log_var = log_prior.log_softmax(-1).unsqueeze(-1), floored(log_var)
    flat = [y.expand(*lead, *y.shape[-2:]).reshape(-1, *y.shape[-2:]) for y in (x, log_prior, mean, log_var)]
    return _LogDensity.apply(*flat).view(*lead, mean.size(-2), x.size(-2)).transpose(-2, -1)


class _LogDensity(torch.autograd.Function):
    """log pi + log N(x; mu, sigma^2): x (N, T, D), log pi (N, C, 1), mu, log sigma^2 (N, C, D) -> (N, C, T).

    Clusters come first in the result because narrow rows are slow.

    With g the gradient of the result, n = g 1, s = g x and S = g x^2, sums over the tokens, the gradients are

        log pi: n    mu: (s - n mu) / sigma^2    log sigma^2: ((S - 2 mu s + n mu^2) / sigma^2 - n) / 2
        x: g^T (mu / sigma^2) - x g^T (1 / sigma^2)
    """

    @staticmethod
    def forward(ctx, x, log_prior, mean, log_var):
        precision = torch.exp(-log_var)
        scaled = mean * precision
        normaliser = (math.log(2 * math.pi) + log_var + mean * scaled).sum(-1, keepdim=True) / 2
        ctx.save_for_backward(x, mean, precision)
        with without_tf32(x):
            joint = torch.baddbmm(log_prior - normaliser, precision, x.square().transpose(1, 2), alpha=-0.5)
            return joint.baddbmm_(scaled, x.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, mean, precision = ctx.saved_tensors
        count, by_token, square = grad.sum(-1, keepdim=True), grad.transpose(1, 2), x.square()
        with without_tf32(x):
            first, second = torch.bmm(grad, x), torch.bmm(grad, square)
            dx = torch.bmm(by_token, precision, out=square).mul_(x).baddbmm_(by_token, mean * precision, beta=-1)
        from_mean = first - count * mean
        dlog_var = (precision * (second - mean * (first + from_mean)) - count) / 2
        return dx, count, precision * from_mean, dlog_var


def posterior(log_joint: Tensor) -> Tensor:
    """Compute p(c | x) = p(x, c) / p(x), equation (9), from the result of `log_density`, (..., T, C) -> (..., T, C)."""
    return log_joint.transpose(-2, -1).softmax(-2).transpose(-2, -1)
