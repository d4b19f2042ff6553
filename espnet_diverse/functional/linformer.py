"""Projection along time: Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", equation (7).

    head = softmax(Q (E X W_k)^T / sqrt(d)) (F X W_v)                                       (7)

E and F (l, T_max) are learned. An input of T frames takes their first T columns, so that a frame has the same column in
every batch. Padded frames are set to zero before; the released code leaves them as they are, and each of the l keys
then depends on them.
"""

from torch import Tensor


def project_time(projection: Tensor, x: Tensor, valid: Tensor | None = None) -> Tensor:
    """Compute E X of (7).

    Args:
        projection: E or F, (l, T_max) with T_max at least T.
        x: Frames (B, T, M).
        valid: Which frames are not padding, (B or 1, T) bool, or None (all).

    Returns:
        (B, l, M).
    """
    if valid is not None:
        x = x.masked_fill(~valid.unsqueeze(-1), 0.0)
    return projection[:, : x.size(1)] @ x
