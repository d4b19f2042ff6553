"""Memory block over values: Gao et al. 2020, "SAN-M: Memory Equipped Self-Attention for End-to-End Speech Recognition".

    M_t = v_t + sum_{k=0}^{K-1} f_k * v_{t + k - floor((K - 1) / 2)}                         (1)

f_k has a coefficient for each channel: a convolution along time by channels, without bias. Values outside the sequence
are 0, and padding counts as outside, so that an utterance has the same memory in every batch. The equation is numbered
here.
"""

import torch.nn.functional as F
from torch import Tensor


def memory_block(v: Tensor, filters: Tensor, valid: Tensor | None = None, residual: bool = True) -> Tensor:
    """Compute (1).

    Args:
        v: Values (B, H, T, D).
        filters: The coefficients f, (H * D, K).
        valid: Which positions are not padding, bool, broadcastable to (B, 1, T), or None (all).
        residual: Whether (1) has its first term v_t.

    Returns:
        (B, H, T, D).
    """
    if valid is not None:
        v = v.masked_fill(~valid.unsqueeze(-1), 0.0)
    channels, width = filters.shape
    before = (width - 1) // 2
    by_channel = F.pad(v.transpose(-2, -1).flatten(1, 2), (before, width - 1 - before))  # (B, H * D, T + K - 1)
    memory = F.conv1d(by_channel, filters.unsqueeze(1), groups=channels)
    memory = memory.unflatten(1, (v.size(1), -1)).transpose(-2, -1)
    return v + memory if residual else memory
