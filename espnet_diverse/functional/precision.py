"""Precision of floating point numbers."""

import torch
from torch import Tensor


def in_full_precision(x: Tensor) -> Tensor:
    """Return half precision numbers as float32, whose range exponentials and sums need; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def in_autocast(x: Tensor) -> Tensor:
    """Return a number that autocast, where it is on, would convert for a matrix product in its type; else as it is."""
    kind = x.device.type
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))
