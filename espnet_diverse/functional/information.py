"""The auxiliary losses of the SDMA paper: equations (14)-(23).

Every loss is the mean over sequences and heads of one value for each sequence. Padding is ignored: `mask` is bool, True
= valid, broadcastable to the (..., T) of the tokens, for example (B, 1, T) for tokens (B, H, T, D). Sequences with
fewer than two valid tokens are left out, because for a single token the probability (17) is 1 and the bound (21)
infinite. If no sequence is left, the loss is 0.
"""

import math
from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.blockwise import LOG2_E, block_size, blocks
from espnet_diverse.functional.mixture import floored
from espnet_diverse.functional.posterior_losses import Evidence, HeadPairCost, PairwiseSquares


class Valid(NamedTuple):
    """Valid tokens, and the weights of tokens and sequences in the losses; `valid_tokens` computes it once for all.

    Attributes:
        mask: Bool, True = valid, (..., T), or None (all valid).
        ones: The mask as numbers, (..., T) or (T,).
        count: Number of valid tokens of each sequence, (..., 1).
        sequences: Weights of sequences, (..., 1); they sum to 1, or to 0 if every sequence is left out.
        tokens: Weights of tokens, (..., T): the weight of the sequence divided by its number of tokens.
    """

    mask: Tensor | None
    ones: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count, which nobody calls
    sequences: Tensor
    tokens: Tensor


def valid_tokens(mask: Tensor | Valid | None, like: Tensor) -> Valid:
    """Return what the losses need of a mask (..., T) for tokens `like` (..., T, D or C)."""
    if isinstance(mask, Valid):
        return mask
    ones = like.new_ones(like.size(-2)) if mask is None else mask.to(like.dtype)
    count = ones.sum(-1, keepdim=True)
    counted = (count >= 2).to(ones.dtype)
    sequences = counted / counted.sum().clamp(min=1)
    return Valid(mask, ones, count, sequences, ones * (sequences / count.clamp(min=1)))


def cluster_kl(
    log_joint: Tensor,
    p: Tensor,
    width: int,
    log_prior: Tensor,
    log_var: Tensor,
    variance: float | Tensor,
    mask: Tensor | Valid | None = None,
    direction: str = "paper",
) -> Tensor:
    """Compute the KL divergence of q(x, c) = N(x, variance) p(c|x) from the mixture, equation (20), in nats per token.

    With q(c) the posterior (9), the sum of the Gaussian and the categorical part is, exactly,

        -log p(x) + variance / 2 sum_c p(c|x) sum_d 1/sigma_cd^2 - D/2 (1 + log(2 pi variance)).

    Args:
        log_joint: `mixture.log_density` of the tokens, (..., T, C).
        p: Their posteriors, `posterior(log_joint)`.
        width: Width D of the tokens.
        log_prior: Cluster weights of the mixture as logits, as in `mixture.log_density`.
        log_var: Logarithms of the variances of the mixture.
        variance: Variance of the variational Gaussian, a positive number or broadcastable to (..., T).
        mask: Valid tokens, broadcastable to (..., T).
        direction: "paper" is KL(q(c) || pi); "released" is KL(pi || q(c)), as in the released code.

    Raises:
        ValueError: The direction is unknown.
    """
    if direction not in ("paper", "released"):
        raise ValueError(f"unknown KL direction {direction!r}; known: paper released")
    valid = valid_tokens(mask, p)
    evidence = Evidence.apply(log_joint.transpose(-2, -1), p.transpose(-2, -1))  # log p(x)
    precision = torch.exp(-floored(log_var)).sum(-1)
    spread = (p * precision.unsqueeze(-2)).sum(-1)
    log_variance = torch.log(variance) if torch.is_tensor(variance) else math.log(variance)
    gaussian = variance / 2 * spread - width / 2 * (1 + math.log(2 * math.pi) + log_variance)
    if direction == "paper":
        return _mean_over_tokens(gaussian - evidence, valid)
    log_prior = log_prior.log_softmax(-1).unsqueeze(-2)
    log_posterior = log_joint - evidence.unsqueeze(-1)
    categorical = (log_prior.exp() * (log_prior - log_posterior)).sum(-1)
    return _mean_over_tokens(gaussian + (p * (log_prior - log_joint)).sum(-1) + categorical, valid)


def head_mi_upper(
    log_joint: Tensor,
    p: Tensor,
    width: int,
    mask: Tensor | Valid | None = None,
    mi_density: str = "paper",
    mi_bound: str = "approximate",
) -> Tensor:
    """Compute L_Dqq, an upper bound on the mutual information of the queries of two heads, (14) or (21), in nats.

    In (17), p(c|q) p(q) is the joint density of the mixture, so (17) is a softmax of its logarithm over the tokens.
    In (21) 1 - p is clamped, and in (14) p, which bounds the loss of a token.

    Args:
        log_joint: `mixture.log_density` of the queries, (..., H, T, C).
        p: Their posteriors, `posterior(log_joint)`.
        width: Width D of the queries.
        mask: Valid tokens, broadcastable to (..., H, T), the same for all heads.
        mi_density: "paper", or "tempered": log p(q) of (18) divided by D, because in many dimensions the density of the
            paper has all its weight on a few tokens.
        mi_bound: "approximate" is (21), in O(T); "leave_one_out" is (14), the mean over all pairs of heads like (21),
            in O(T^2). It is below zero where the queries of a token tell less about each other than about others.

    Raises:
        ValueError: The density or the bound is unknown.
    """
    if mi_density not in ("paper", "tempered"):
        raise ValueError(f"unknown MI density {mi_density!r}; known: paper tempered")
    if mi_bound not in ("approximate", "leave_one_out"):
        raise ValueError(f"unknown MI bound {mi_bound!r}; known: approximate leave_one_out")
    valid = valid_tokens(mask, p)
    if mi_density == "tempered":
        log_joint = log_joint - log_joint.logsumexp(-1, keepdim=True) * (1 - 1 / width)
    joint = log_joint.transpose(-2, -1)
    if valid.mask is not None:
        joint = joint - (1 - valid.ones).unsqueeze(-2) * (torch.finfo(joint.dtype).max / 2)
    a, b = joint.softmax(-1), p.transpose(-2, -1)  # p(q|c) over the valid tokens (17), and p(c|q)
    heads, tokens = a.size(-3), a[..., :1, :1, :].numel()
    weights = valid.tokens if valid.tokens.dim() == 1 else valid.tokens.sum(-2, keepdim=True)
    if mi_bound == "leave_one_out":
        total = (_leave_one_out(a, b, valid) * weights).sum()
    else:
        total = HeadPairCost.apply(a, b, weights)
    return total * (weights.numel() / tokens / heads**2)


def _leave_one_out(a: Tensor, b: Tensor, valid: Valid) -> Tensor:
    """Compute the terms of (14), summed over the pairs of heads: p(q|c) and p(c|q), (..., H, C, T) -> (..., 1, T)."""
    weight = valid.ones / (valid.count - 1).clamp(min=1)
    weight = weight if weight.dim() == 1 else weight[..., :1, :]
    total = a.new_zeros(())
    for first, second in permutations(range(a.size(-3)), 2):
        pairs = torch.einsum("...ci,...cj->...ij", a[..., first, :, :], b[..., second, :, :])  # (16)
        pairs = pairs.clamp(min=torch.finfo(pairs.dtype).tiny).log()
        diagonal = pairs.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        total = total + diagonal * (1 + weight) - (pairs * weight).sum(-1).unsqueeze(-2)
    return total


def query_mi_lower(p: Tensor, mask: Tensor | Valid | None = None) -> Tensor:
    """Compute L_Dxq, a lower bound on the mutual information of queries and tokens, equations (19) and (22), in nats.

    As in (22) there is no 1/n inside the logarithm: the bound of (15) is this value plus log n.

    Args:
        p: Posteriors of the queries (..., T, C).
        mask: Valid tokens, broadcastable to (..., T).
    """
    valid = valid_tokens(mask, p)
    flat = p.transpose(-2, -1).reshape(-1, p.size(-1), p.size(-2))
    ones, weights = (x.expand(p.shape[:-1]).reshape(len(flat), 1, -1) for x in (valid.ones, valid.tokens))
    return _OwnAgainstAll.apply(flat, ones, weights) * (valid.tokens.numel() / ones.numel())


def diversity(
    p: Tensor, alpha: float = 1.25, beta: float = 0.75, form: str = "paper", mask: Tensor | Valid | None = None
) -> Tensor:
    """Compute L_DV, equation (23), which is small if posteriors are sharp and tokens are in different clusters.

    The sum of squares of P P^T off the diagonal is ||P^T P||^2 minus the sum of the diagonal, which costs O(T C^2).

    Args:
        p: Posteriors (..., T, C).
        alpha: Weight of the diagonal, each token with itself.
        beta: Weight of the other entries, between tokens.
        form: "paper" squares alpha and beta; "code" does not, as in the released code; "balanced" squares them and
            averages the diagonal and the other entries separately, because otherwise long sequences favour uniform
            posteriors.
        mask: Valid tokens, broadcastable to (..., T).

    Raises:
        ValueError: The form is unknown.
    """
    if form not in ("paper", "code", "balanced"):
        raise ValueError(f"unknown form of the diversity loss {form!r}; known: paper code balanced")
    valid = valid_tokens(mask, p)
    power = 1 if form == "code" else 2
    size = valid.count.clamp(min=2)
    pairs = size * (size - 1) if form == "balanced" else size**2
    singles = size if form == "balanced" else size**2
    weights = [(valid.sequences * by**power / of).unsqueeze(-1) for by, of in ((alpha, singles), (beta, pairs))]
    total = PairwiseSquares.apply(p.transpose(-2, -1), valid.ones.unsqueeze(-2), *weights)
    return total * (valid.sequences.numel() / p[..., 0, 0].numel())


class _OwnAgainstAll(torch.autograd.Function):
    """sum_i w_i (p_i . p_i - log sum_j valid_j exp(p_i . p_j)): p (N, C, T), valid of 0 and 1 and w (N, 1, T) -> ().

    The gradient is computed with the value, because both need products with exp(P P^T). As posteriors, p_i . p_j is in
    [0, 1], so the exponentials cannot overflow.
    """

    @staticmethod
    def forward(ctx, p, valid, weights):
        value, gradient = p.new_zeros(()), torch.empty_like(p, memory_format=torch.contiguous_format)
        count = max(1, block_size(p.device) // max(1, p.size(2) ** 2))
        for chunk, ones, w, out in zip(*(x.split(count) for x in (p, valid, weights, gradient)), strict=True):
            times_gram = _times_exp_gram(chunk)
            sums = times_gram(torch.cat([chunk * ones, ones], 1))
            total = torch.where(sums[:, -1:] > 0, sums[:, -1:], 1)
            value += (w * (chunk.square().sum(1, keepdim=True) - total.log())).sum()
            if ctx.needs_input_grad[0]:
                share = w / total
                torch.sub(2 * w * chunk - share * sums[:, :-1], ones * times_gram(share * chunk), out=out)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None, None


def _times_exp_gram(p: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that multiplies (N, K, T) by exp(P P^T) from the right, for p (N, C, T).

    The matrix is kept if it fits a block. Otherwise its rows are computed again for each product. As the matrix is
    symmetric, only its upper triangle is computed, and each part is used for both sides.
    """
    by_token, time, limit = LOG2_E * p.transpose(1, 2), p.size(2), block_size(p.device)

    def gram(rows: slice) -> Tensor:
        return torch.bmm(by_token[:, rows], p[..., rows.start :]).exp2_()  # faster than exp

    if time * time <= limit:
        matrix = gram(slice(0, time))
        return lambda left: torch.bmm(left, matrix)

    def by_rows(left: Tensor) -> Tensor:
        result = torch.zeros_like(left)
        for _, _, rows in blocks(1, 1, time, time, limit):
            part = gram(rows)
            result[..., rows] += torch.bmm(left[..., rows.start :], part.transpose(1, 2))
            result[..., rows.stop :] += torch.bmm(left[..., rows], part[..., part.size(1) :])
        return result

    return by_rows


def _mean_over_tokens(values: Tensor, valid: Valid) -> Tensor:
    """Compute the mean over valid tokens, then over sequences and leading dimensions: values (..., T) -> ()."""
    return (values * valid.tokens).sum() * (valid.tokens.numel() / values.numel())
