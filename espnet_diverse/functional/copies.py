"""Copies from the host to a device that do not block the host."""

from typing import Any

import torch
from torch import Tensor


def copied(values: Any, device: torch.device | str, dtype: torch.dtype | None = None) -> Tensor:
    """Return numbers, such as indices, as a tensor on a device.

    `torch.tensor(values, device=device)` waits for all work of a GPU; a copy from pinned memory is queued behind it.

    Args:
        values: What `torch.tensor` takes.
        device: The device.
        dtype: Type of the result; by default that of `values`.
    """
    made = torch.tensor(values, dtype=dtype)
    return made.pin_memory().to(device, non_blocking=True) if torch.device(device).type == "cuda" else made
