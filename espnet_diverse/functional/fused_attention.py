"""PyTorch's fused attention, with rows that see no key.

Such rows are padding, and positions that a pattern leaves alone; every law on padding needs 0 as their context and as
their gradients. Which of the kernels of a GPU runs depends on its type, the shapes and the version of PyTorch, and they
differ there: some give NaN. So none of them gets such a row: it attends to all keys, and its result is replaced by 0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """Compute softmax attention, 0 for queries without keys.

    Args:
        q: Queries (B, H, Tq, D).
        k: Keys (B, H, Tk, D).
        v: Values (B, H, Tk, D).
        mask: Bool, True = may attend, or terms of the logits, -inf = may not; broadcastable to (B, H, Tq, Tk). None is
            all.
        dropout: Dropout rate of the weights.

    Returns:
        Context (B, H, Tq, D).
    """
    if mask is None or not q.is_cuda:  # the only kernel of CPUs gives 0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout)
    return attention_of_open_rows(q, k, v, mask, dropout)


def attention_of_open_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout: float = 0.0) -> Tensor:
    """Compute `fused_attention` with a kernel that need not know rows without keys."""
    if mask.dtype == torch.bool:
        closed = ~mask.any(-1, keepdim=True)
        mask = mask | closed
    else:
        closed = mask.detach().amax(-1, keepdim=True) == -torch.inf
        mask = mask.masked_fill(closed, 0.0)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout).masked_fill(closed, 0.0)
