"""Lambda attention: a softmax of the keys over positions, per channel, makes a linear map that is applied to queries.

    lambda = softmax_j(K / sqrt(D))^T V,    context = Q lambda                                (1)

    context_i = sum_{j seen by i} sum_d q_id exp(k_jd / sqrt(D)) / Z_id v_j                   (2)
    Z_id = sum_{j seen by i} exp(k_jd / sqrt(D))

Bello 2021, "LambdaNetworks: Modeling Long-Range Interactions without Attention", content lambdas, with the scale of
softmax attention. (2) is (1) where the queries see different keys. Its causal form goes through the sequence in blocks,
with m_i the greatest k_j / sqrt(D) of each channel up to i, and m the greatest up to the last block:

    context_i = sum_d q_id / Z_id (exp(m - m_i) State + sum of the block)_d                   (3)
    State_d = sum_{j before} exp(k_jd / sqrt(D) - m_d) v_j

All exponents are at most 0, so that no key, however large, changes the result of queries that do not see it. Where the
keys of each channel lie close together, one m for all of them is as good, and (2) for any mask is matrix products:

    E_jd = exp(k_jd / sqrt(D) - m_d),    Z = M E,    context = (M * ((q / Z) E^T)) v          (4)

with M_ij = 1 where i sees j, else 0.
"""

import math

import torch
from torch import Tensor

from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.running_sums import Sums

_BLOCK = 16
"""Positions of a block of (3), which has S D exponentials for each position."""

_NEAR = 40.0
"""Greatest difference of the keys of a channel for (4): its gradient has 1 / Z^2, and float32 ends at exp(88)."""


def lambda_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute (1), in which all queries see the same keys.

    Args:
        q: Queries (B, H, Tq, D).
        k: Keys (B, H, Tk, D).
        v: Values (B, H, Tk, Dv).
        mask: Bool, True = is seen, broadcastable to (B, 1, 1, Tk).

    Returns:
        Context (B, H, Tq, Dv); zero if no key is seen.
    """
    k = k / math.sqrt(k.size(-1))
    if mask is not None:
        mask = mask.transpose(-2, -1)
        k = k.masked_fill(~mask, torch.finfo(k.dtype).min)
        v = v.masked_fill(~mask, 0.0)
    return q @ (k.softmax(-2).transpose(-2, -1) @ v)


def masked_lambda_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: Sums | None = None) -> Tensor:
    """Compute (2) for any mask, in O(Tq Tk D) time: by (4) where the keys are near each other, else with all terms.

    Args:
        q: Queries (B, H, Tq, D).
        k: Keys (B, H, Tk, D).
        v: Values (B, H, Tk, Dv).
        mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk).
        before: Sums over further keys that the queries see, with s = k / sqrt(D); Tk may then be 0, and mask None.

    Returns:
        Context (B, H, Tq, Dv); zero for queries that see no key.
    """
    if before is not None and not k.size(2):
        return before.read(q / _at_least_one(before.chosen(before.state[..., -1])))[..., :-1]
    assert mask is not None  # where there are keys
    k = k / math.sqrt(k.size(-1))
    low, high = (k if before is None else torch.cat([k, before.top], 2)).detach().aminmax(dim=-2, keepdim=True)
    near = not k.is_cuda and bool((high - low).amax() <= _NEAR)  # would wait for a GPU
    if near:
        top, terms, visible = high, (k - high).exp(), mask.to(k.dtype)
        z = visible @ terms
    else:
        k, mask = k.unsqueeze(-3), mask.unsqueeze(-1)
        top = k.detach().masked_fill(~mask, torch.finfo(k.dtype).min).amax(-2)  # (B, H, Tq, D)
        top = top if before is None else torch.maximum(top, before.chosen(before.top))
        terms = _exponentials(k, top, mask)
        z = terms.sum(-2)
    if before is not None:
        fade = (before.chosen(before.top) - top).exp()
        z = z + fade * before.chosen(before.state[..., -1])
    q = q / _at_least_one(z)
    context = (q @ terms.transpose(-2, -1) * visible if near else _weights(q, terms)) @ v
    return context if before is None else context + before.read(q * fade)[..., :-1]


def causal_lambda_attention(q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None = None) -> Tensor:
    """Compute (2) by (3), over all keys up to the query's own, in O(T (S + Dv) D) time with blocks of S.

    Args:
        q: Queries (B, H, T, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, Dv).
        valid: Bool, True = may be attended to, broadcastable to (B, 1, T).

    Returns:
        Context (B, H, T, Dv); zero for queries that see no key.
    """
    k = k / math.sqrt(k.size(-1))
    valid = torch.ones(1, 1, k.size(2), dtype=torch.bool, device=k.device) if valid is None else valid
    tops = k.detach().masked_fill(~valid.unsqueeze(-1), torch.finfo(k.dtype).min / 2).cummax(-2).values
    before, z, state = tops[:, :, :1], torch.zeros_like(k[:, :, :1]), k.new_zeros(*k.shape[:2], k.size(3), v.size(3))
    parts = []
    # `split`, because the gradient of each slice would be as long as the whole
    blocks = (*(x.split(_BLOCK, 2) for x in (q, k, v, tops)), valid.split(_BLOCK, -1))
    for q_n, k_n, v_n, top, valid_n in zip(*blocks, strict=True):
        terms = _exponentials(
            k_n.unsqueeze(-3), top, (causal(top.size(2), k.device) & valid_n.unsqueeze(-2)).unsqueeze(-1)
        )
        fade = (before - top).exp()
        q_n = q_n / _at_least_one(fade * z + terms.sum(-2))
        parts.append((q_n * fade) @ state + _weights(q_n, terms) @ v_n)
        z = fade[:, :, -1:] * z + terms[:, :, -1].sum(-2, keepdim=True)
        state = fade[:, :, -1].unsqueeze(-1) * state + terms[:, :, -1].transpose(-2, -1) @ v_n
        before = top[:, :, -1:]
    return torch.cat(parts, dim=2)


def _exponentials(k: Tensor, top: Tensor, mask: Tensor) -> Tensor:
    """Return exp(k_j - top_i), 0 where i does not see j: k (..., 1, Tk, D), top (..., Tq, D), mask (..., Tq, Tk, 1)."""
    return (k - top.unsqueeze(-2)).masked_fill(~mask, -torch.inf).exp()


def _weights(q: Tensor, terms: Tensor) -> Tensor:
    """Return the factors of the values in (2): q (..., Tq, D) over Z, terms (..., Tq, Tk, D) -> (..., Tq, Tk)."""
    return torch.einsum("...id,...ijd->...ij", q, terms)


def _at_least_one(z: Tensor) -> Tensor:
    """Return sums, which have a term exp(0) unless they are empty, with empty ones set to 1."""
    return z.masked_fill(z == 0, 1.0)  # not `clamp`, whose gradient at 1 depends on the release of PyTorch
