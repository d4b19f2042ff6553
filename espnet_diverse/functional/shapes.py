"""Shapes of tensors."""

import torch


def broadcast(*shapes: torch.Size) -> torch.Size:
    """Return the shape that tensors of `shapes` broadcast to.

    `torch.broadcast_shapes` does the same, but imports sympy in its first call, which takes more than a second.

    Raises:
        RuntimeError: The shapes do not broadcast.
    """
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return torch.broadcast_tensors(*(torch.empty(()).expand(shape) for shape in shapes))[0].shape
