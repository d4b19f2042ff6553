"""Compressed memory: Rae et al., "Compressive Transformers for Long-Range Sequence Modelling", ICLR 2020, section 3.

Frames that leave a first-in first-out memory are compressed, c into one, and kept in a second memory. With h the
queries of the current segment, the compression learns to preserve what attention reads from the old frames:

    loss = ||attention(h, old frames) - attention(h, compressed frames)||^2        (attention-reconstruction loss)
"""

import torch
from torch import Tensor


def pooled(frames: Tensor, ratio: int, how: str) -> Tensor:
    """Compress every `ratio` frames into one by their mean or maximum: (B, T, D) -> (B, T / ratio, D).

    Raises:
        ValueError: The way to compress is unknown.
    """
    if how not in ("mean", "max"):
        raise ValueError(f"unknown compression {how!r}; known: mean max")
    groups = frames.unflatten(1, (-1, ratio))
    return groups.mean(2) if how == "mean" else groups.amax(2)


def reconstruction_loss(expected: Tensor, found: Tensor, counted: Tensor) -> Tensor:
    """Compute the attention-reconstruction loss, (): the squared error by element; 0 if no query counts.

    Args:
        expected: What the queries read from the old frames, (B, H, Tq, D).
        found: What they read from the compressed frames, (B, H, Tq, D).
        counted: Which queries count, (B, Tq).
    """
    weights = counted[:, None, :, None].to(expected.dtype)
    error = ((expected - found).square() * weights).sum()
    elements = expected.size(1) * expected.size(3) * torch.clamp(weights.sum(), min=1)
    return error / elements
