"""Scaled dot-product attention, Vaswani et al. 2017, "Attention is all you need", equation (1).

    A = softmax(Q K^T / sqrt(D)),    context = A V

Softmax-equivalent setting: always. With weights the output equals that of ESPnet's attention bit for bit.
Cost: O(Tq Tk D) time; O(Tq D) memory with PyTorch's fused kernel, O(Tq Tk) when weights are needed.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.supports import EVERYTHING


class Softmax(Core):
    """Softmax attention, the baseline. It has no options and no parameters."""

    supports = EVERYTHING
    SOFTMAX_EQUIVALENT = {}

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        return softmax_attention(heads)


def softmax_attention(heads: Heads) -> tuple[Tensor, Tensor | None]:
    """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None, equation (1)."""
    if heads.need_weights:
        weights = masked_softmax(heads.scores(), heads.mask)
        return F.dropout(weights, heads.dropout) @ heads.v, weights
    bias = heads.scaled_position()
    if bias is None:
        bias = heads.mask
    elif heads.mask is not None:
        bias = bias.masked_fill(~heads.mask, -torch.inf)
    return F.scaled_dot_product_attention(heads.q, heads.k, heads.v, bias, heads.dropout), None


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that the mask allows; 0 at other keys, and a row of 0 if it allows none.

    The order of operations is ESPnet's: equal inputs give equal bits.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
