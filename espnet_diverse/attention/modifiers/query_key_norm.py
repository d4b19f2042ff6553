"""Attention by the cosine of queries and keys, for any core whose logits are their dot products.

Henry et al. 2020, "Query-Key Normalization for Transformers":

    A = softmax_j(g q_i . k_j / (|q_i| |k_j|)),    g learned, from log2(L^2 - L)

L is the length of a long sequence of the training data; the paper takes its 97.5th percentile. Here each head has its
own scale g. The queries are multiplied by g sqrt(D), so that a core divides its logits by sqrt(D) as always, and
PyTorch's fused attention stays in use. Relative position adds its biases to the normalised queries.

Softmax-equivalent setting: none; without the section queries and keys stay as they are projected.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.option_checks import Options, number

_SHORTEST = 0.01  # silence that SpecAugment or padding has made is 0; its gradient is multiplied by 1 / _SHORTEST


@dataclass(frozen=True)
class QueryKeyNormOptions(Options):
    """Options of normalised queries and keys, the keys of the `qk_norm:` section of an attention.

    Attributes:
        length: Number of positions L of a long sequence, which gives the initial scale: 32 gives 10.
    """

    length: int = number(32, least=2)


class UnitKeys(nn.Module):
    """Divides keys by their norms."""

    def forward(self, k: Tensor) -> Tensor:
        """Normalise k (B, H, T, D) -> (B, H, T, D)."""
        return k * inverse_norm(k).to(k.dtype)


class ScaledQueries(nn.Module):
    """Divides queries by their norms and multiplies them by g sqrt(D).

    Args:
        heads: Number of heads H.
        options: The options.

    Attributes:
        scale: The scale g of each head (H, 1, 1).
    """

    def __init__(self, heads: int, options: QueryKeyNormOptions):
        super().__init__()
        self.length = options.length
        self.scale = nn.Parameter(torch.empty(heads, 1, 1))
        self.espnet_initialization_fn()

    def espnet_initialization_fn(self) -> None:
        """Set the scale that training begins with; ESPnet's `init` redraws all parameters, then calls this."""
        nn.init.constant_(self.scale, math.log2(self.length**2 - self.length))

    def forward(self, q: Tensor) -> Tensor:
        """Normalise and scale q (B, H, T, D) -> (B, H, T, D)."""
        return q * (inverse_norm(q) * self.scale * math.sqrt(q.size(-1))).to(q.dtype)


def inverse_norm(x: Tensor) -> Tensor:
    """Compute 1 / max(|x|, 0.01) over the last dimension, (..., D) -> (..., 1).

    With gradients it takes a third of the time of `F.normalize`.
    """
    return in_full_precision(x).square().sum(-1, keepdim=True).clamp(min=_SHORTEST**2).rsqrt()
