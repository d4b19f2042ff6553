"""Shapes of tensors."""

import torch


def broadcast(*shapes: torch.Size) -> torch.Size:
    """The shape that tensors of `shapes` broadcast to.

    `torch.broadcast_shapes` does the same, and imports sympy at its first call, which takes more than a second.

    Raises:
        RuntimeError: They do not broadcast.
    """
    return torch.broadcast_tensors(*(torch.empty(()).expand(shape) for shape in shapes))[0].shape
