"""A module that `torch.compile` leaves as it is, in whatever it compiles.

Compiled, attention would learn something else without a word: the backward passes of `functional` add to views of their
results, which the compiler takes for unused, so that gradients are left out, and `UpdateCounter` would count an update
several times.
"""

from typing import Any

import torch
from torch import nn


class Uncompiled(nn.Module):
    """Base class of such modules; what is around them is compiled in parts."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute `forward`, without the compiler."""
        call = super().__call__
        if torch.compiler.is_compiling():
            call = torch.compiler.disable(call)  # not above: it takes a second to import
        return call(*args, **kwargs)

    def compile(self, *_: Any, **__: Any) -> None:
        """Stay as it is."""
