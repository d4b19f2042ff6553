"""ESPnet's attention modules in a model that several threads use at once.

ESPnet's `MultiHeadedAttention` leaves its weights in the attribute `attn`, for plots, and reads them from there to sum
the values. If another thread calls the module in between, the values are summed with the weights of its input.
"""

from functools import partial

import torch
from torch import Tensor, nn

from espnet_diverse.upstream.layers import MultiHeadedAttention


def share_attention(model: nn.Module) -> None:
    """Make ESPnet's attention modules of a model safe to call from several threads, in place, with the same results."""
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.forward_attention = partial(_forward_attention, module)


def _forward_attention(module: MultiHeadedAttention, value: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Sum values (B, H, Tk, D) with the softmax of scores (B, H, Tq, Tk) -> (B, Tq, M).

    Args:
        module: The attention; its `attn` becomes the weights (B, H, Tq, Tk), and is not read.
        value: The values.
        scores: The scores.
        mask: Nonzero = may attend, (B, 1 or Tq, Tk), or None (all).
    """
    if mask is None:
        weights = scores.softmax(-1)
    else:
        excluded = mask.unsqueeze(1) == 0
        least = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(excluded, least).softmax(-1).masked_fill(excluded, 0.0)
    module.attn = weights
    context = module.dropout(weights) @ value
    return module.linear_out(context.transpose(1, 2).flatten(2))
