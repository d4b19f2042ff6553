"""Scaled dot-product attention, Vaswani et al. 2017, "Attention is all you need", equation (1).

    A = softmax(Q K^T / sqrt(D)),    context = A V

Null setting: always; this core is ESPnet's own attention, to the bit where weights are asked for.
Cost: O(Tq Tk D) time; O(Tq D) memory through the fused kernel, O(Tq Tk) where weights are asked for.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.multi_head import Core, Heads


class Softmax(Core):
    """The reference core; it has no options and no parameters."""

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Heads -> context (B, H, Tq, D), weights (B, H, Tq, Tk) or None."""
        if heads.need_weights:
            weights = masked_softmax(heads.scores(), heads.mask)
            return F.dropout(weights, heads.dropout) @ heads.v, weights
        bias = heads.mask
        if heads.position is not None:
            bias = heads.scaled_position()
            if heads.mask is not None:
                bias = bias.masked_fill(~heads.mask, -torch.inf)
        return F.scaled_dot_product_attention(heads.q, heads.k, heads.v, bias, heads.dropout), None


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that may be attended; 0 elsewhere, and a row of 0 where there are none.

    The order of operations is ESPnet's, so that equal inputs give equal bits.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
