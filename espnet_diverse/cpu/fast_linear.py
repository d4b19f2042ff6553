"""Linear layers of a loaded model whose weights are stored in the layout that is fastest in a search.

PyTorch computes `nn.Linear` in float32 with MKL, which rearranges the weights in every call; this is expensive where
few rows are multiplied with many weights, as in beam search. oneDNN, which is part of PyTorch, accepts weights that
were rearranged once. Its calls have more overhead, so that MKL may be faster for small layers, such as 128 by 128, and
on some CPUs for all, with weights whose columns are contiguous. The fastest on this CPU is found by measurement
(`cpu/linear_kernels.py`). Results differ in the order of sums.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.cpu.linear_kernels import library
from espnet_diverse.functional.linear import arranged, column_major, product
from espnet_diverse.upstream.layers import PositionwiseFeedForward


class FastLinear(nn.Linear):
    """A linear layer with the weights of another in a layout for inference in float32 on a CPU.

    In all other cases it computes `nn.Linear`, with weights that are restored once.

    Args:
        linear: The layer, whose weights may be freed.
        onednn: Whether oneDNN multiplies, or MKL.
        relu: Whether ReLU follows; oneDNN computes it in the same call.
    """

    def __init__(self, linear: nn.Linear, onednn: bool = True, relu: bool = False):
        nn.Module.__init__(self)  # no parameters of its own
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias, self.onednn, self.relu = linear.bias, onednn, relu
        self.copy = arranged(linear.weight) if onednn else column_major(linear.weight)
        self.train(linear.training)

    @cached_property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Weights (out, in)."""
        return self.copy.to_dense() if self.onednn else self.copy

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> (..., out)."""
        if is_plain(x):
            y = F.linear(x, self.weight.to(x.dtype), self.bias)
        elif self.onednn:
            return product(x, self.copy, self.bias, self.relu)
        else:
            y = F.linear(x, self.copy, self.bias)
        return F.relu(y) if self.relu else y


def is_plain(x: Tensor) -> bool:
    """Return whether to use PyTorch's own layer for x: with gradients, not in float32, on a GPU, or compiled."""
    return torch.is_grad_enabled() or x.dtype != torch.float32 or x.is_cuda or torch.compiler.is_compiling()


def joined(linears: Sequence[nn.Linear]) -> nn.Linear:
    """Join linear layers with the same input into one with the outputs of all; its parameters are copies."""
    first = linears[0]
    one = nn.Linear(first.in_features, 1, first.bias is not None)
    one.out_features = sum(linear.out_features for linear in linears)
    one.weight = nn.Parameter(torch.cat([linear.weight.detach() for linear in linears]))
    if first.bias is not None:
        one.bias = nn.Parameter(torch.cat([linear.bias.detach() for linear in linears]))
    return one


def replace_linear(model: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    """Replace the linear layers of a model, in place.

    The projections of attention with head selection are not replaced, because it multiplies with some of their rows,
    nor are those of compiled layers, nor WavLM's in transformers, which gives their weights to a function.

    Args:
        model: The model; its parameters do not change any more.
        make: Makes the replacement of a linear layer.
    """
    compiled = {x for layer in model.modules() if layer._compiled_call_impl is not None for x in layer.modules()}
    parents = [module for module in model.modules() if type(module) is not nn.Linear]
    for parent in parents:
        if type(parent).__name__ == "WavLMAttention" or parent in compiled:
            continue
        selective = isinstance(parent, MultiHeadAttention) and parent.selection is not None
        for name in [name for name, _ in parent.named_children()]:  # names alone: a replaced layer is freed at once
            child = getattr(parent, name)
            if type(child) is nn.Linear and not (selective and name != "linear_out"):
                setattr(parent, name, make(child))


def speed_up(model: nn.Module) -> None:
    """Replace the linear layers of a model by `FastLinear`, in place, where that is faster: in float32 on a CPU."""
    replace_linear(model, _fast)
    for module in model.modules():
        feed_forward = isinstance(module, PositionwiseFeedForward) and isinstance(module.w_1, FastLinear)
        if feed_forward and type(module.activation) is nn.ReLU:
            module.w_1.relu, module.activation = True, nn.Identity().train(module.training)


def _fast(linear: nn.Linear) -> nn.Linear:
    weight = linear.weight
    if weight.dtype != torch.float32 or weight.is_cuda or (chosen := library(weight, "search")) == "mkl":
        return linear
    return FastLinear(linear, onednn=chosen == "onednn")
