"""Cross-entropy with smoothed labels (Szegedy et al. 2016, "Rethinking the Inception architecture", section 7).

The target is t with probability c = 1 - e, and each of the other V - 1 classes with probability s = e / (V - 1). The
divergence of the prediction p = softmax(x) from it is

    sum_k q_k log(q_k / p_k) = logsumexp(x) - (c - s) x_t - s sum_k x_k + c log c + e log s       (1)
    d/dx_k = p_k - s - (c - s) [k = t]                                                            (2)

so neither q nor log p is stored. This saves memory, because most of the memory of a text model is the scores of a large
vocabulary.
"""

import math

import torch
from torch import Tensor

from espnet_diverse.functional.precision import in_full_precision

CACHED = 2**17  # number of scores that fit the cache of a CPU


def smoothed_divergence(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Compute equation (1) for each row.

    Args:
        scores: Scores x (N, V).
        targets: Indices t of the target classes, (N,).
        smoothing: Total probability e of the other classes, at least 0 and less than 1.

    Returns:
        Divergence (N,), float32 if the scores are of half precision, otherwise of their type.

    Raises:
        ValueError: The smoothing is not allowed, or there is only one class.
    """
    if not 0 <= smoothing < 1 or scores.size(-1) < 2:
        raise ValueError(f"smoothing {smoothing} of {scores.size(-1)} classes: give 0 <= smoothing < 1 and two classes")
    return _SmoothedDivergence.apply(scores, targets, smoothing)


class _SmoothedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        c, s = 1 - smoothing, smoothing / (scores.size(1) - 1)
        sums = [(x.logsumexp(1), x.sum(1)) for x in map(in_full_precision, scores.split(rows_in_cache(scores)))]
        normaliser, total = (torch.cat(parts) for parts in zip(*sums, strict=True))
        entropy = c * math.log(c) + (smoothing * math.log(s) if s else 0.0)
        ctx.save_for_backward(scores, targets, normaliser)
        ctx.shares = c, s
        of_target = in_full_precision(scores.gather(1, targets.unsqueeze(1))).squeeze(1)
        return normaliser - (c - s) * of_target - s * total + entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor):
        scores, targets, normaliser = ctx.saved_tensors
        c, s = ctx.shares
        result = torch.empty_like(scores)
        columns = (column.unsqueeze(1) for column in (targets, normaliser, gradient))
        parts = (tensor.split(rows_in_cache(scores)) for tensor in (result, scores, *columns))
        for out, x, t, logarithm, upstream in zip(*parts, strict=True):
            p = (in_full_precision(x) - logarithm).exp_()
            p.sub_(s).scatter_add_(1, t, p.new_full((len(p), 1), s - c))
            torch.mul(p, upstream, out=out)
        return result, None, None


def rows_in_cache(scores: Tensor) -> int:
    """Return the number of rows of scores (N, V) to process at a time: on a CPU as many as fit its cache."""
    return max(1, len(scores) if scores.is_cuda else CACHED // scores.size(1))
