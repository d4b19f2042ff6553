"""Parts of differential attention, and its extension of trained attentions. The equations are numbered here.

Ye et al. 2025, "Differential Transformer":

    lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init       (2)
    norm(x) = w * x / sqrt(mean(x^2) + 1e-5)                                             (3)
    lambda_init = 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l = 1, 2, ...                     (7)

Kong et al. 2025, "Understanding Differential Transformer Unchains Pretrained Self-Attentions", (4) of the paper, and
the extension (DEX) of the context of each head:

    lambda(t) = (1 - alpha) (t / T) lambda_init + alpha lambda_learned,    alpha = min(1, t / T)    (5)
    context' = context - lambda(t) context W_D                                                     (6)
"""

import math

import torch
from torch import Tensor

from espnet_diverse.functional.precision import in_full_precision

_EPSILON = 1e-5


def initial_weight(layer: int) -> float:
    """Compute lambda_init (7) of a layer, counted from 1."""
    return 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))


def difference_weight(q: Tensor, k: Tensor, initial: float) -> Tensor:
    """Compute lambda (2), ().

    Args:
        q: lambda_q1 and lambda_q2, (2, D / 2).
        k: lambda_k1 and lambda_k2, (2, D / 2).
        initial: lambda_init.
    """
    first, second = (in_full_precision(q) * in_full_precision(k)).sum(-1).exp().unbind()
    return first - second + initial


def head_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Normalise the context of each head (3): x (..., D), weight (D,) -> (..., D). Zeros stay zeros."""
    full = in_full_precision(x)
    full = full * (full.square().mean(-1, keepdim=True) + _EPSILON).rsqrt()
    return (full * weight).to(x.dtype)


def extension_weight(progress: float | Tensor, initial: float, learned: Tensor) -> Tensor:
    """Compute lambda(t) (5), ().

    Args:
        progress: t / T, a number or ().
        initial: lambda_init.
        learned: lambda_learned, ().
    """
    alpha = torch.as_tensor(progress, dtype=learned.dtype, device=learned.device).clamp(max=1)
    return (1 - alpha) * alpha * initial + alpha * learned


def extended_context(context: Tensor, weight: Tensor, factor: Tensor) -> Tensor:
    """Compute (6): context (B, H, Tq, D), W_D (D, D), factor () -> (B, H, Tq, D)."""
    return context - factor * (context @ weight)
