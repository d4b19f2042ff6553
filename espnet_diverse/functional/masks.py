"""Masks in the convention of the package: bool, True = valid or may attend."""

from collections.abc import Sequence

import torch
from torch import Tensor


def causal(time: int, device: torch.device | None = None) -> Tensor:
    """Return a mask (T, T) bool with which each query (row) attends to its own and to earlier positions."""
    return torch.ones(time, time, dtype=torch.bool, device=device).tril()


def lengths_to_mask(lengths: Tensor, time: int) -> Tensor:
    """Return which of `time` positions are within the sequence: lengths (...) integer -> (..., T) bool.

    Raises:
        ValueError: A length is negative or greater than `time`.
    """
    outside = lengths[(lengths < 0) | (lengths > time)]
    if outside.numel():
        raise ValueError(f"length {int(outside[0])} does not fit in {time} positions; lengths run from 0 to {time}")
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(-1)


def sliding(time: int, window: int, dilation: int = 1) -> Tensor:
    """Return a mask (T, T) bool of a window: |i - j| <= window dilation, and i - j is divisible by dilation.

    Beltagy et al. 2020, "Longformer", section 3.1. A causal window is this and `causal(time)`.
    """
    i = torch.arange(time)
    distance = i.unsqueeze(1) - i
    return (distance.abs() <= window * dilation) & (distance % dilation == 0)


def with_global(mask: Tensor, positions: Sequence[int]) -> Tensor:
    """Open rows and columns of `positions` in a mask (T, T): they attend to all, and all attend to them."""
    mask = mask.clone()
    mask[list(positions)] = True
    mask[:, list(positions)] = True
    return mask


def fixed(time: int, stride: int, expressivity: int) -> Tensor:
    """Return the fixed pattern of Child et al. 2019, "Generating Long Sequences with Sparse Transformers", as released.

    As in fairseq, a query in (cs, (c + 1)s] attends to [cs, (c + 1)s], with stride s; and all queries attend to the
    last `expressivity` positions of each such block and the position that follows. The causal pattern is this and
    `causal(time)`. Returns (T, T) bool.
    """
    i = torch.arange(time)
    block = (i - 1).clamp(min=0).div(stride, rounding_mode="floor").unsqueeze(1) * stride
    own = (i >= block) & (i <= block + stride)
    summary = (i % stride >= stride - expressivity) | ((i % stride == 0) & (i > 0))
    return own | summary
