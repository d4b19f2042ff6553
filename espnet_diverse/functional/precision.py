"""Precision of floating point numbers."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def in_full_precision(x: Tensor) -> Tensor:
    """Return half precision numbers as float32, whose range exponentials and sums need; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def linear_in_full_precision(linear: nn.Module, x: Tensor) -> Tensor:
    """Apply a linear map to x (..., in) -> (..., out) in float32 at least, unless autocast sets another type.

    A layer that has replaced an `nn.Linear` for inference (`decoding/encoder/precision.py`) keeps its own precision.
    """
    if not isinstance(linear, nn.Linear):
        return linear(in_full_precision(x))
    weight, bias = (None if tensor is None else in_full_precision(tensor) for tensor in (linear.weight, linear.bias))
    return F.linear(in_full_precision(x), weight, bias)


def in_autocast(x: Tensor) -> Tensor:
    """Return numbers in the type of autocast, if it would convert them for a matrix product; else as they are."""
    kind = x.device.type
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))


@contextmanager
def without_tf32(x: Tensor) -> Iterator[None]:
    """Let a GPU compute products of float32 with all digits while the block runs, even if TF32 is on.

    TF32 has three decimal digits; a small difference of large products has none left.

    Args:
        x: An operand; the setting is of the process, and left alone where x is not on a GPU.
    """
    matmul = torch.backends.cuda.matmul
    if not x.is_cuda or (before := matmul.fp32_precision) != "tf32":
        yield
        return
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before
