"""Faster implementations of the linear maps and dropouts of a model on a CPU, while it trains.

Only the `forward` of the modules is replaced; their parameters and hooks stay. Under autocast and on a GPU, where the
faster implementations do not apply, the modules compute as before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from torch import Tensor, nn

from espnet_diverse.cpu.linear_kernels import library
from espnet_diverse.functional.dropout import dropout
from espnet_diverse.functional.linear import linear
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend


@contextmanager
def fast_on_cpu(model: nn.Module) -> Iterator[None]:
    """Use the faster implementations in `model` while the block runs."""
    suitable = {module for module in _suitable(model) if type(module) in _FORWARDS and _pays(module)}
    replaced = [module for module in suitable if "forward" not in vars(module)]
    for module in replaced:
        module.forward = MethodType(_FORWARDS[type(module)], module)
    try:
        yield
    finally:
        for module in replaced:
            del module.forward


def _suitable(module: nn.Module) -> Iterator[nn.Module]:
    """The module and its submodules, except those that `torch.compile` optimises, and pretrained speech encoders.

    transformers masks the outputs of a layer of the latter in place, which a custom backward pass does not allow.
    """
    if module._compiled_call_impl is None and not isinstance(module, HuggingFaceFrontend):
        yield module
        for child in module.children():
            yield from _suitable(child)


def _pays(module: nn.Module) -> bool:
    return not isinstance(module, nn.Linear) or _fits(module.weight) and library(module.weight, "training") == "onednn"


def _linear(self: nn.Linear, x: Tensor) -> Tensor:
    if _fits(x) and _fits(self.weight) and not torch.is_autocast_enabled("cpu"):
        return linear(x, self.weight, self.bias)
    return nn.Linear.forward(self, x)


def _dropout(self: nn.Dropout, x: Tensor) -> Tensor:
    if self.training and self.p < 1 and x.device.type == "cpu" and not self.inplace:
        return dropout(x, self.p)
    return nn.Dropout.forward(self, x)


def _fits(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0


_FORWARDS = {nn.Dropout: _dropout, nn.Linear: _linear}
