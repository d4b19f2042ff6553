"""Precision of floating point numbers."""

import torch
from torch import Tensor


def in_full_precision(x: Tensor) -> Tensor:
    """Return half precision numbers as float32, whose range exponentials and sums need; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
