"""The auxiliary losses of the SDMA paper: equations (15)-(23).

Every loss is the mean over sequences and heads of a value of each sequence. Padding counts for nothing: `mask` is bool,
True = valid, broadcastable to the (..., T) of the tokens, so (B, 1, T) for tokens (B, H, T, D). Sequences with fewer
than two valid tokens are left out, because what a lone token tells of itself is no information: (17) makes it certain
of itself and (21) infinite. Where no sequence is left the loss is 0.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from espnet_diverse.functional.blockwise import LOG2_E, block_size, blocks
from espnet_diverse.functional.mixture import floored, log_density, posterior

#: Smallest 1 - p inside the logarithm of (21).
_CERTAIN = 1e-6


def cluster_kl(
    x: Tensor,
    log_prior: Tensor,
    mean: Tensor,
    log_var: Tensor,
    variance: float | Tensor,
    mask: Tensor | None = None,
    direction: str = "paper",
    log_joint: Tensor | None = None,
) -> Tensor:
    """KL from q(x, c) = N(x, variance) p(c|x) to the mixture, equation (20), in nats a token.

    With q(c) the posterior (9), the sum of the Gaussian and the categorical part is, exactly,

        -log p(x) + variance / 2 sum_c p(c|x) sum_d 1/sigma_cd^2 - D/2 (1 + log(2 pi variance)).

    Args:
        x: Tokens (..., T, D).
        log_prior, mean, log_var: The mixture, as in `mixture.log_density`.
        variance: Variance of the variational Gaussian, above 0: a number, or broadcastable to (..., T).
        mask: Valid tokens, broadcastable to (..., T).
        direction: "paper" is KL(q(c) || pi); "released" is KL(pi || q(c)), as in the released code.
        log_joint: `log_density(x, log_prior, mean, log_var)`, where the caller has it.

    Raises:
        ValueError: The direction is unknown.
    """
    if direction not in ("paper", "released"):
        raise ValueError(f"unknown KL direction {direction!r}; known: paper released")
    joint = log_density(x, log_prior, mean, log_var) if log_joint is None else log_joint
    evidence = joint.logsumexp(-1)  # log p(x)
    p = posterior(joint)
    spread = torch.matmul(p, torch.exp(-floored(log_var)).sum(-1, keepdim=True)).squeeze(-1)
    variance = torch.as_tensor(variance, dtype=x.dtype, device=x.device)
    gaussian = (variance * spread - x.size(-1) * (1 + torch.log(2 * math.pi * variance))) / 2
    if direction == "paper":
        return _mean_over_tokens(gaussian - evidence, mask)
    log_prior = log_prior.log_softmax(-1).unsqueeze(-2)
    log_posterior = joint - evidence.unsqueeze(-1)
    categorical = (log_prior.exp() * (log_prior - log_posterior)).sum(-1)
    return _mean_over_tokens(gaussian + (p * (log_prior - joint)).sum(-1) + categorical, mask)


def query_given_query(
    q: Tensor,
    log_prior: Tensor,
    mean: Tensor,
    log_var: Tensor,
    mask: Tensor | None = None,
    mi_density: str = "paper",
    log_joint: Tensor | None = None,
) -> Tensor:
    """p(q_i^h | q_i^h') of each token for each two heads, equations (16)-(18).

    In (17), p(c|q) p(q) is the joint density of the mixture, so (17) is a softmax of its logarithm over the tokens.

    Args:
        q: Queries (..., H, T, D).
        log_prior, mean, log_var: The mixture of the queries, as in `mixture.log_density`.
        mask: Valid tokens, broadcastable to (..., H, T), the same for all heads.
        mi_density: "paper", or "tempered": log p(q) of (18) divided by D. In many dimensions the paper's density puts
            all its weight on a few tokens.
        log_joint: `log_density(q, log_prior, mean, log_var)`, where the caller has it.

    Returns:
        (..., T, H, H), the first head that of the query told, the second that of the query given; 0 for padding.

    Raises:
        ValueError: The density is unknown.
    """
    if mi_density not in ("paper", "tempered"):
        raise ValueError(f"unknown MI density {mi_density!r}; known: paper tempered")
    joint = log_density(q, log_prior, mean, log_var) if log_joint is None else log_joint
    cluster_given_query = posterior(joint)  # (..., H, T, C)
    if mi_density == "tempered":
        joint = joint - joint.logsumexp(-1, keepdim=True) * (1 - 1 / q.size(-1))
    if mask is not None:
        joint = joint.masked_fill(~mask.unsqueeze(-1), torch.finfo(joint.dtype).min)
    query_given_cluster = joint.transpose(-2, -1).softmax(-1).transpose(-2, -1)  # (17)
    if mask is not None:  # where nothing is valid, all is alike
        query_given_cluster = query_given_cluster.masked_fill(~mask.unsqueeze(-1), 0.0)
    return torch.matmul(query_given_cluster.transpose(-3, -2), cluster_given_query.movedim(-3, -1))


def head_mi_upper(
    q: Tensor,
    log_prior: Tensor,
    mean: Tensor,
    log_var: Tensor,
    mask: Tensor | None = None,
    mi_density: str = "paper",
    log_joint: Tensor | None = None,
) -> Tensor:
    """L_Dqq, upper bound on what the queries of two heads tell of each other, equation (21), in nats.

    Arguments and errors are those of `query_given_query`; 1 - p is clamped, so that no token costs without bound.
    """
    p = query_given_query(q, log_prior, mean, log_var, mask, mi_density, log_joint)
    heads = p.size(-1)
    other = 1 - torch.eye(heads, dtype=p.dtype, device=p.device)
    cost = -torch.log1p(-p.clamp(max=1 - _CERTAIN)) * other  # (..., T, H, H)
    valid = None if mask is None else mask.expand(q.shape[:-1])[..., 0, :]
    return _mean_over_tokens(cost.sum((-2, -1)) / heads**2, valid)


def query_mi_lower(p: Tensor, mask: Tensor | None = None) -> Tensor:
    """L_Dxq, lower bound on what queries tell of their tokens, equations (19) and (22), in nats.

    As in (22) there is no 1/n inside the logarithm: the bound of (15) is this plus log n.

    Args:
        p: Posteriors of the queries (..., T, C).
        mask: Valid tokens, broadcastable to (..., T).
    """
    flat = p.reshape(-1, *p.shape[-2:])
    valid = _valid(mask, p[..., 0]).to(p.dtype).reshape(flat.shape[:-1])
    log_sum = _LogSumExpGram.apply(flat, valid).view(p.shape[:-1])
    return _mean_over_tokens(p.square().sum(-1) - log_sum, mask)


def diversity(
    p: Tensor, alpha: float = 1.25, beta: float = 0.75, form: str = "paper", mask: Tensor | None = None
) -> Tensor:
    """L_DV, which is small where tokens are sure of their cluster and clusters differ between tokens, equation (23).

    Off the diagonal, the sum of squares of P P^T is ||P^T P||^2 less the diagonal's: O(T C^2).

    Args:
        p: Posteriors (..., T, C).
        alpha: Weight of the diagonal, each token with itself.
        beta: Weight off the diagonal, between tokens.
        form: "paper" squares alpha and beta with the rest; "code" does not, as the released code; "balanced" squares
            them and takes the mean of each part by itself, without which long sequences favour uniform posteriors.
        mask: Valid tokens, broadcastable to (..., T).

    Raises:
        ValueError: The form is unknown.
    """
    if form not in ("paper", "code", "balanced"):
        raise ValueError(f"unknown form of the diversity loss {form!r}; known: paper code balanced")
    valid = _valid(mask, p[..., 0])
    p = p.masked_fill(~valid.unsqueeze(-1), 0.0)
    count = valid.sum(-1)
    own = p.square().sum(-1)  # (..., T)
    diagonal = (own - 1).square().masked_fill(~valid, 0.0).sum(-1)
    between = torch.matmul(p.transpose(-2, -1), p).square().sum((-2, -1)) - own.square().sum(-1)
    power = 1 if form == "code" else 2
    size = count.clamp(min=2)
    pairs = size * (size - 1) if form == "balanced" else size**2
    singles = size if form == "balanced" else size**2
    return _mean_over_sequences(alpha**power * diagonal / singles + beta**power * between / pairs, count)


class _LogSumExpGram(torch.autograd.Function):
    """log sum_j valid_j exp(p_i . p_j): p (N, T, C), valid (N, T) of 0 and 1 -> (N, T), 0 where nothing is valid.

    Backward needs, beside the sums, only a product of the same matrix, which is computed again. Posteriors keep
    p_i . p_j within [0, 1], so that no maximum needs taking out.
    """

    @staticmethod
    def forward(ctx, p, valid):
        valid = valid.unsqueeze(1)
        sums = _exp_gram_product(p, torch.cat([p.transpose(1, 2) * valid, valid], 1))
        total = torch.where(sums[:, -1:] > 0, sums[:, -1:], 1)
        ctx.save_for_backward(p, valid, sums[:, :-1], total)
        return total.log().squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        p, valid, weighted, total = ctx.saved_tensors
        share = grad.unsqueeze(1) / total
        gradient = share * weighted + valid * _exp_gram_product(p, share * p.transpose(1, 2))
        return gradient.transpose(1, 2), None


def _exp_gram_product(p: Tensor, right: Tensor) -> Tensor:
    """right @ exp(P P^T): p (N, T, C), right (N, K, T) -> (N, K, T), in blocks of rows.

    The matrix is symmetric: each block has only the columns from its first row on, and serves both sides.
    """
    count, time, _ = p.shape
    rows_first, clusters_first = p.contiguous(), p.transpose(1, 2).contiguous()
    result = torch.zeros_like(right, memory_format=torch.contiguous_format)
    memory = None
    for n, _, rows in blocks(count, 1, time, time, block_size(p.device) // 2):
        own, later = rows_first[n, rows], clusters_first[n, :, rows.start :]
        shape = *own.shape[:2], later.size(2)
        if memory is None:  # the first block is the largest
            memory = p.new_empty(math.prod(shape))
        gram = memory[: math.prod(shape)].view(shape)
        gram.baddbmm_(own, later, beta=0, alpha=LOG2_E).exp2_()  # quicker than exp
        result[n, :, rows] += torch.bmm(right[n, :, rows.start :], gram.transpose(1, 2))
        if rows.stop < time:
            result[n, :, rows.stop :] += torch.bmm(right[n, :, rows], gram[..., own.size(1) :])
    return result


def _valid(mask: Tensor | None, like: Tensor) -> Tensor:
    """Bool mask of the shape of `like` (..., T)."""
    return torch.ones_like(like, dtype=torch.bool) if mask is None else mask.expand(like.shape)


def _mean_over_tokens(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over valid tokens, then over sequences: values (..., T), mask broadcastable to it -> ()."""
    valid = _valid(mask, values)
    count = valid.sum(-1, keepdim=True)
    weights = (valid & (count >= 2)).to(values.dtype) / count.clamp(min=1)  # of a sequence, they sum to one or zero
    return (values * weights).sum() / weights.sum().clamp(min=1)


def _mean_over_sequences(values: Tensor, count: Tensor) -> Tensor:
    """Mean over sequences with at least two valid tokens: values and count (...) -> (); 0 where there is none."""
    weights = (count >= 2).to(values.dtype)
    return (values * weights).sum() / weights.sum().clamp(min=1)
