"""Parts of differential attention, Ye et al. 2025, "Differential Transformer". The equations are numbered here.

lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init           (2)
norm(x) = w * x / sqrt(mean(x^2) + 1e-5)                                                 (3)
"""

from torch import Tensor

from espnet_diverse.functional.precision import in_full_precision

_EPSILON = 1e-5


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
