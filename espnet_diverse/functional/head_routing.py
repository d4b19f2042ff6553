"""Routing of heads by token: gates of the heads, and the loss that balances them.

Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention", section 3, with the scales of the
authors' code, with which the gates of a router without preferences are 1.
"""

import torch
from torch import Tensor


def routed_gates(logits: Tensor, active: int) -> tuple[Tensor, Tensor]:
    """Compute the gates of routed heads, of which each token uses the k with the largest logits.

        g_i = k softmax_S(W_r x)_i for i in S,  0 otherwise,    S = TopK(W_r x, k)

    Args:
        logits: W_r x (..., R).
        active: Number k of heads that each token uses.

    Returns:
        The gates (..., R), whose sum over the heads is k, and which heads are used, (..., R) bool.
    """
    chosen = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, logits.topk(active).indices, True)
    return active * logits.masked_fill(~chosen, -torch.inf).softmax(-1), chosen


def shared_gates(logits: Tensor) -> Tensor:
    """Compute the gates of heads that every token uses: g_i = h softmax(W_s x)_i, logits (..., h) -> (..., h)."""
    return logits.size(-1) * logits.softmax(-1)


def balance_loss(logits: Tensor, chosen: Tensor, valid: Tensor | None = None) -> Tensor:
    """Compute a loss that is k where each head is used as often as the others, and larger otherwise.

        L = R sum_i P_i f_i,    P_i = 1/T sum_t softmax(W_r x_t)_i,    f_i = 1/T sum_t [i in S_t]

    Args:
        logits: W_r x (B, T, R).
        chosen: Which heads each token uses, (B, T, R) bool.
        valid: Which positions are tokens, (1 or B, T) bool, or None (all).

    Returns:
        The loss of each sequence, (B,); 0 for one without tokens.
    """
    weights = torch.ones_like(logits[..., 0]) if valid is None else valid.to(logits.dtype).expand(logits.shape[:2])
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=1)  # 1/T
    used, probable = (torch.einsum("bt,btr->br", shares, x) for x in (chosen.to(logits.dtype), logits.softmax(-1)))
    return logits.size(-1) * (used * probable).sum(-1)
