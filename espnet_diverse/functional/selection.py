"""Selection of attention heads by conditions: equations (3)-(7) of the head-selection paper.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling". Each value of a condition, such as a language, selects H heads of a pool of P (H' in the paper). phi (P,) are
the logits of its posterior q = sigmoid(phi), one for each head: only the difference phi(1) - phi(0) of (4) matters.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

#: Added to the samples in the official KL, as in the released code.
_EPSILON = 1e-7


def logistic_noise(like: Tensor) -> Tensor:
    """Draw noise of the shape and type of `like` (...): the difference of two Gumbel variables, which is logistic."""
    return torch.logit(torch.rand_like(like), eps=torch.finfo(like.dtype).eps)


def soft_sample(phi: Tensor, noise: Tensor | float, tau: float | Tensor) -> Tensor:
    """Sample the relaxed posterior (4): phi (..., P) and noise of that shape, or 0 -> y (..., P) in (0, 1)."""
    return torch.sigmoid((phi + noise) / tau)


def subset_picks(scores: Tensor, heads: int, order: str = "index") -> Tensor:
    """Select the H heads of highest score (5): scores (..., P) -> indices (..., H).

    Args:
        scores: Posteriors, their samples or their logits.
        heads: Number of heads H.
        order: "index" sorts the heads by index, as in the paper; "score" sorts them by score, the best first, as in the
            released code, so that a head changes its slot when ranks change.
    """
    picks = scores.topk(heads, dim=-1).indices
    return picks.sort(dim=-1).values if order == "index" else picks


def group_picks(scores: Tensor, heads: int, layout: str = "strided") -> Tensor:
    """Select the head of highest score in each of H groups (6): scores (..., P) -> indices (..., H).

    Args:
        scores: Posteriors, their samples or their logits.
        heads: Number of groups H, which divides P.
        layout: Heads of group g: "strided" g, g + H, g + 2H, ... (released); "contiguous" gr ... gr + r - 1, r = P / H.
    """
    candidates = _candidates(scores, heads, layout)
    group, best = torch.arange(heads, device=scores.device), candidates.argmax(dim=-1)
    return best * heads + group if layout == "strided" else best + group * candidates.size(-1)


def group_rest(picks: Tensor, pool: int, layout: str = "strided") -> list[Tensor]:
    """Return the other candidates of each group: picks (..., H) of `group_picks` -> P / H - 1 tensors (..., H)."""
    heads, count = picks.size(-1), pool // picks.size(-1)
    step = heads if layout == "strided" else 1
    best = picks // heads if layout == "strided" else picks % count
    return [picks + ((best + k) % count - best) * step for k in range(1, count)]


def subset_gap(scores: Tensor, heads: int) -> Tensor:
    """Return how far the H-th best head is ahead of the next one: scores (..., P) -> (...)."""
    best = scores.topk(heads + 1, dim=-1).values
    return best[..., -2] - best[..., -1]


def group_gap(scores: Tensor, heads: int, layout: str = "strided") -> Tensor:
    """Return how far the best head of each group is ahead of the second best: scores (..., P) -> (..., H)."""
    best = _candidates(scores, heads, layout).topk(2, dim=-1).values
    return best[..., 0] - best[..., 1]


def _candidates(scores: Tensor, heads: int, layout: str) -> Tensor:
    """Arrange scores by groups: (..., P) -> (..., H, P / H)."""
    if layout == "strided":
        return scores.unflatten(-1, (-1, heads)).transpose(-2, -1)  # not `.mT`, which ONNX export does not know
    return scores.unflatten(-1, (heads, -1))


def straight_through(y: Tensor, picks: Tensor) -> Tensor:
    """Return the weights s of the selected heads: 1 in value, with the gradient of their samples.

    y (..., P), picks (..., H) -> (..., H). Other heads have s = 0 and get no gradient.
    """
    selected = y.gather(-1, picks)
    return 1 + (selected - selected.detach())


def weigh(values: Tensor, weights: Tensor) -> Tensor:
    """Multiply the values of heads by straight-through weights, which are 1: only gradients are computed.

    values (B, H, T, D), weights (B, H) -> (B, H, T, D).
    """
    return _Weigh.apply(values, weights)


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, weights):
        ctx.save_for_backward(values, weights)
        return values.view_as(values)

    @staticmethod
    def backward(ctx, grad):
        values, weights = ctx.saved_tensors
        by_weight = (grad * values).sum((2, 3))
        return grad * weights[..., None, None] if torch.is_grad_enabled() else grad, by_weight


def credit(context: Tensor, y: Tensor, others: Tensor) -> Tensor:
    """Give the samples of heads that were not selected the gradient that they have in the sum over candidates

        context_g = sum_c z_c head_c,    z_c = 1 if c is selected else 0, with the gradient of y_c      (8)

    Args:
        context: Context of the selected heads (B, H, T, D), which is returned in value.
        y: Samples of one other candidate of each group, (B, H).
        others: Context of these candidates (B, H, T, D), which gets no gradient: its factor is 0.
    """
    return _Credit.apply(context, y, others)


class _Credit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, context, y, others):
        ctx.save_for_backward(others)
        return context.view_as(context)

    @staticmethod
    def backward(ctx, grad):
        (others,) = ctx.saved_tensors
        return grad, (grad * others).sum((2, 3)), None


def bernoulli_kl(phi: Tensor, prior: float) -> Tensor:
    """Compute KL(q || p) of each head in (3), in nats, with q = sigmoid(phi) and p = prior = H / P: phi (...) -> (...).

    The paper prints p = H'/H, which would be greater than 1.
    """
    q = torch.sigmoid(phi)
    return q * (F.logsigmoid(phi) - math.log(prior)) + (1 - q) * (F.logsigmoid(-phi) - math.log(1 - prior))


def official_kl(y: Tensor, prior: float) -> Tensor:
    """Compute the released code's term instead of (3) for each head: y log(y / p) of the sample y (...) -> (...).

    The term for z = 0 is missing, so the minimum is at y = p / e, not at p.
    """
    return y * ((y + _EPSILON).log() - math.log(prior))


def shared_heads(picks: Tensor, others: Tensor) -> Tensor:
    """Count the heads that two selections have in common: picks and others (..., H), which broadcast -> (...) int64."""
    return (picks.unsqueeze(-1) == others.unsqueeze(-2)).sum(dim=(-2, -1))
