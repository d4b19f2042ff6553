"""Gaussian sampling of tokens and queries, equation (8) of the SDMA paper, with a constant or a learned variance."""

import math

import torch
from torch import Tensor, nn

from espnet_diverse.attention.inspection import Diagnosis
from espnet_diverse.functional.precision import linear_in_full_precision

#: Variance of noise, as a share of the variance of its input, from which it is reported; its standard deviation is then
#: sqrt(0.1) = .32 of the input's. The default `noise_std` is a tenth of the standard deviation of normalised tokens,
#: and more than a tenth for the queries that are projected from them.
LOUD = 0.1

#: Range of learned log-variances, far beyond any that fits: outside, a variance or its inverse soon is no float32.
LOG_VARIANCES = (-20.0, 20.0)


class LearnedVariance(nn.Linear):
    """Predicts a variance for each token and head, exp(linear(x)); initially it is 0.01 for every token.

    With the initial values of the released code, random weights around a log-variance of 0, the noise would be as large
    as the tokens. The log-variance is clamped to `LOG_VARIANCES`.
    """

    def reset_parameters(self) -> None:
        """Predict the paper's sigma^2 = 0.01 for every token."""
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.bias, math.log(0.01))

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, M) -> variance (B, H, T)."""
        return linear_in_full_precision(self, x).clamp(*LOG_VARIANCES).exp().transpose(1, 2)


def gaussian_noise(like: Tensor, std: float | Tensor) -> Tensor:
    """Draw Gaussian noise of the shape of `like`.

    Args:
        like: Tensor (...) that gives shape, type and device.
        std: Standard deviation, a number or broadcastable to `like`.
    """
    noise = torch.empty_like(like)
    in_memory_order = noise.as_strided((noise.numel(),), (1,))  # which is fast for transposed queries too
    if not isinstance(std, Tensor):
        in_memory_order.normal_(std=std)
        return noise
    in_memory_order.normal_()
    return noise.mul_(std)


def noise_share(std: float | Tensor, x: Tensor) -> Tensor:
    """Return the mean variance of noise divided by the variance of the values that it is added to, ().

    Args:
        std: Standard deviation of the noise, a number or broadcastable to `x`.
        x: What the noise is added to, (...).
    """
    noise = std.detach() if isinstance(std, Tensor) else x.new_full((), std)
    variance = x.detach().float().var(correction=0)
    return noise.float().square().mean() / variance.clamp(min=torch.finfo(torch.float32).eps)


def noise_diagnosis(noisy: str, remedy: str) -> Diagnosis:
    """Return what a high value of the statistic `noise_<noisy>`, a `noise_share`, means.

    Args:
        noisy: What the noise is added to, in the plural.
        remedy: What to try.
    """
    meaning = f"the noise added to {noisy} has {{value:.0%}} of their variance"
    return Diagnosis(f"noise_{noisy}", LOUD, meaning, remedy)
