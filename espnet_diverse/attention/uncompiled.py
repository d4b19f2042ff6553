"""Modules that are left out when a net is compiled."""

from typing import Any

import torch
from torch import nn


class Uncompiled(nn.Module):
    """A module that `torch.compile` does not compile; a net that contains it is compiled in parts.

    Compiled, attention would silently learn something else: the backward passes of `functional` add to views of their
    results, which the compiler treats as unused, so that gradients are left out, and `UpdateCounter` would count an
    update several times.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute `forward`, without the compiler."""
        call = super().__call__
        if torch.compiler.is_compiling():
            call = torch.compiler.disable(call)  # not above: it takes a second to import
        return call(*args, **kwargs)

    def compile(self, *_: Any, **__: Any) -> None:
        """Do nothing."""
