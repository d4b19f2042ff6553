"""Consistency of the predictions of two passes of the same input, which differ by dropout or augmentation.

For the distributions p and q of the two passes at a position, both losses have the same value,

    D = 1/2 [KL(p || q) + KL(q || p)] = 1/2 sum_k (p_k - q_k) d_k,    d_k = log p_k - log q_k    (1)

R-Drop (Liang, Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks") differentiates both distributions of
either divergence. In the scores x of p the gradient is

    dD/dx_k = 1/2 [p_k (d_k + 1 - KL(p || q)) - q_k]                                             (2)

and the gradient in the scores of q is the same with p and q exchanged. CR-CTC (Yao et al. 2025, "CR-CTC: Consistency
regularization on CTC for improved speech recognition") treats the first distribution of each divergence as a constant:
1/2 [KL(sg(q) || p) + KL(sg(p) || q)]. Its gradients are 1/2 (p - q) in the scores of p, 1/2 (q - p) in the scores of q.

Neither the distributions nor their logarithms are stored: most of the memory of a text model is the scores of a large
vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from espnet_diverse.functional.label_smoothing import rows_in_cache
from espnet_diverse.functional.precision import in_full_precision


def consistency(scores: Tensor, valid: Tensor, constant_targets: bool = False) -> Tensor:
    """Compute (1), summed over the valid positions of each sequence.

    Args:
        scores: Scores of the first pass, then of the second, (2 B, T, V).
        valid: Which positions count, (B, T) bool.
        constant_targets: Whether each pass is pulled towards the other as a constant, as in CR-CTC.

    Returns:
        (B,), at least 0 to rounding; float32 if the scores are of half precision, otherwise of their type.
    """
    divergence = _Divergence.apply(scores.flatten(0, 1), constant_targets)
    return divergence.unflatten(0, valid.shape).masked_fill(~valid, 0.0).sum(-1)


class _Divergence(torch.autograd.Function):
    """(1) of scores (2 N, V) -> (N,)."""

    @staticmethod
    def forward(ctx, scores, constant_targets):
        sums = [_sums(x, y) for x, y in _parts(*scores.chunk(2))]
        of_x, of_y, forth, back = (torch.cat(parts) for parts in zip(*sums, strict=True))
        ctx.save_for_backward(scores, of_x, of_y, forth, back)
        ctx.constant_targets = constant_targets
        return (forth + back).squeeze(1) / 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        scores, *saved = ctx.saved_tensors
        result = torch.empty_like(scores)
        parts = _parts(*scores.chunk(2), *result.chunk(2), *saved, gradient.unsqueeze(1) / 2)
        for x, y, to_x, to_y, of_x, of_y, forth, back, upstream in parts:
            x, y = in_full_precision(x), in_full_precision(y)
            p, q = (x - of_x).exp_(), (y - of_y).exp_()
            if ctx.constant_targets:
                to_x.copy_(p.sub_(q).mul_(upstream))
                to_y.copy_(p.neg_())
            else:
                apart = (x - y).sub_(of_x - of_y)
                torch.mul((apart + (1 - forth)).mul_(p).sub_(q), upstream, out=to_x)
                torch.mul(apart.neg_().add_(1 - back).mul_(q).sub_(p), upstream, out=to_y)
        return result, None


def _sums(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Scores (N, V) of both passes -> logarithms of their normalisers, KL(p || q) and KL(q || p), (N, 1) each."""
    x, y = in_full_precision(x), in_full_precision(y)
    (p, of_p), (q, of_q) = _unnormalised(x), _unnormalised(y)
    of_x, of_y = (greatest + total.log() for greatest, total in (of_p, of_q))
    apart = (x - y).sub_(of_x - of_y)
    forth, back = p.mul_(apart).sum(1, keepdim=True), q.mul_(apart).sum(1, keepdim=True)
    return of_x, of_y, forth / of_p[1], -back / of_q[1]


def _unnormalised(x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Scores (N, V) -> exp(x - max x), with max x and the sum of these exponentials, (N, 1) each."""
    greatest = x.amax(1, keepdim=True)
    exponentials = (x - greatest).exp_()
    return exponentials, (greatest, exponentials.sum(1, keepdim=True))


def _parts(scores: Tensor, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield rows of each tensor, as many at a time as fit the cache."""
    return zip(*(tensor.split(rows_in_cache(scores)) for tensor in (scores, *tensors)), strict=True)
