"""Positions in attention, instead of positions that are added to its inputs.

Rotary position, Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding"; for speech Li et al.
2021, "Conformer-based End-to-end Speech Recognition With Rotary Position Embedding". Each pair of channels of a query
or key at position m is turned by an angle that grows with m, so that dot products depend on distances alone:

    (x_c, x_{c + D/2}) <- rotation by m theta_c,    theta_c = 10000^(-2 c / D),    c = 0 ... D/2 - 1

Attention with linear biases (ALiBi), Press et al. 2022, "Train Short, Test Long": distance is subtracted from the
logits, for each head with its own slope.

    logits_ij <- q_i . k_j / sqrt(D) - s_h |i - j|,    s_h = 2^(-8 h / H),    h = 1 ... H

The distance to keys after the query counts too, as in encoders; causal attention has no such keys.

Transformer-XL, Dai et al. 2019, section 3.3: with r_d a projection of the sinusoid of distance d, and learned u and v,

    logits_ij <- ((q_i + u) . k_j + (q_i + v) . r_{i-j}) / sqrt(D)
"""

import torch
from torch import Tensor

_BASE = 10000.0


def turns(position: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the cosines and sines that turn queries or keys at some positions.

    Args:
        position: Positions, integer, broadcastable to (B, T).
        like: Queries or keys (B, H, T, D), D even, for the width and the type of the result.

    Returns:
        Cosines and sines (B or 1, 1, T, D / 2).
    """
    half = like.size(-1) // 2
    frequency = _BASE ** (-torch.arange(half, device=like.device, dtype=torch.float64) / half)
    angle = position.unsqueeze(-1) * frequency  # in double precision, because long sequences turn many times
    cos, sin = (f.to(like.dtype).unsqueeze(-3) for f in (angle.cos(), angle.sin()))
    return cos, sin


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the channels of queries or keys x (B, H, T, D) by the `turns` of their positions -> (B, H, T, D)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def distance_bias(query: Tensor, key: Tensor, q: Tensor) -> Tensor:
    """Compute ALiBi's biases of the logits before scaling, times sqrt(D).

    Args:
        query: Positions of queries (..., Tq, 1).
        key: Positions of keys, broadcastable to (..., Tq, Tk).
        q: Queries (B, H, Tq, D), for the numbers H and D and the type of the result.

    Returns:
        (..., H, Tq, Tk).
    """
    heads, kind = q.size(1), torch.promote_types(q.dtype, torch.float32)  # half precision has no long distances
    slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=key.device, dtype=torch.float64) / heads)
    factor = (-slope * q.size(-1) ** 0.5).to(kind).view(-1, 1, 1)
    return (factor * (query - key).abs().unsqueeze(-3)).to(q.dtype)


def sinusoids(position: Tensor, size: int) -> Tensor:
    """Compute embeddings of positions or distances, sines and cosines in turns: (T,) integer -> (T, size) float64."""
    channel = torch.arange(0, size, 2, device=position.device, dtype=torch.float64)
    angle = position.unsqueeze(-1) * _BASE ** (-channel / size)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :size]


def distance_term(q: Tensor, p: Tensor, distance: Tensor) -> Tensor:
    """Compute Transformer-XL's term of the logits, (q_i + v) . r_{i-j}.

    Args:
        q: Queries with the bias v, (B, H, Tq, D).
        p: Projected embeddings of n distances, (H, n, D).
        distance: Index of each pair's distance among them, broadcastable to (B, H, Tq, Tk).

    Returns:
        (B, H, Tq, Tk).
    """
    scores = q @ p.transpose(-2, -1)
    return scores.gather(-1, distance.expand(*scores.shape[:3], -1))
