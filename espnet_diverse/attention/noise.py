"""Gaussian sampling of tokens and queries, equation (8) of the SDMA paper, with a constant or a learned variance."""

import math

import torch
from torch import Tensor, nn


class LearnedVariance(nn.Linear):
    """One variance a token and head, predicted from the token: exp(linear(x)), starting at 0.01 everywhere.

    Started as the released code does, at random weights around a log-variance of 0, the noise would drown the tokens.
    """

    def reset_parameters(self) -> None:
        """Predict the paper's sigma^2 = 0.01 whatever the token."""
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.bias, math.log(0.01))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, M) -> variance (B, H, T)."""
        return super().forward(x).exp().transpose(1, 2)


def gaussian_noise(like: Tensor, std: float | Tensor) -> Tensor:
    """Gaussian noise of the shape of `like` (...), of standard deviation `std`, a number or broadcastable to it."""
    noise = torch.empty_like(like)
    noise.as_strided((noise.numel(),), (1,)).normal_()  # in the order of memory: quick for transposed queries too
    return noise.mul_(std)
