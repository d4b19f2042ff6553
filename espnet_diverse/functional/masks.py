"""Masks in the convention of the package: bool, True = valid or may attend."""

import torch
from torch import Tensor


def causal(time: int, device: torch.device | None = None) -> Tensor:
    """Return a mask (T, T) bool with which each query (row) attends to its own and to earlier positions."""
    return torch.ones(time, time, dtype=torch.bool, device=device).tril()


def lengths_to_mask(lengths: Tensor, time: int) -> Tensor:
    """Return which of `time` positions are within the sequence: lengths (...) integer -> (..., T) bool.

    Raises:
        ValueError: A length on the CPU is negative or greater than `time`; on a GPU they are not read.
    """
    outside = lengths[:0] if lengths.is_cuda else lengths[(lengths < 0) | (lengths > time)]
    if outside.numel():
        raise ValueError(f"length {int(outside[0])} does not fit in {time} positions; lengths run from 0 to {time}")
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(-1)


def masked_mean(x: Tensor, valid: Tensor | None, dim: int = -1) -> Tensor:
    """Compute the mean of the valid elements of x over `dim`; 0 where there are none.

    Args:
        x: (...).
        valid: Which elements count, bool broadcastable to x and as long as x in `dim`; None is all.
        dim: Dimension that is averaged.
    """
    if valid is None:
        return x.mean(dim)
    weights = valid.to(x.dtype)
    return (x * weights).sum(dim) / weights.sum(dim).clamp(min=1)
