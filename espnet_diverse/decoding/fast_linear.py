"""Linear maps of a loaded model through oneDNN, with weights stored as its kernels read them.

PyTorch hands `nn.Linear` in float32 to a library that rearranges the weights in every call, which costs most where few
rows are multiplied with many weights, as in beam search. oneDNN, which is built into PyTorch, takes weights that were
arranged once. Maps of 128 by 128 gain nothing: a call of oneDNN takes longer to begin. Results differ in the order of
sums. The arranged copy takes as much memory as the weights.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.functional.linear import AVAILABLE, arranged, product


class FastLinear(nn.Linear):
    """A linear map with the parameters of another, for inference in float32 on a CPU; else, and for a compiler, it is
    `nn.Linear`."""

    def __init__(self, linear: nn.Linear):
        nn.Module.__init__(self)  # no parameters of its own
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.arranged = arranged(linear.weight)
        self.train(linear.training)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> (..., out)."""
        if torch.is_grad_enabled() or x.dtype != torch.float32 or x.is_cuda or torch.compiler.is_compiling():
            return F.linear(x, self.weight, self.bias)
        return product(x, self.arranged, self.bias)


def joined(linears: Sequence[nn.Linear]) -> nn.Linear:
    """One map with the rows of several that have the same input; its parameters are copies."""
    first = linears[0]
    one = nn.Linear(first.in_features, 1, first.bias is not None)
    one.out_features = sum(linear.out_features for linear in linears)
    one.weight = nn.Parameter(torch.cat([linear.weight.detach() for linear in linears]))
    if first.bias is not None:
        one.bias = nn.Parameter(torch.cat([linear.bias.detach() for linear in linears]))
    return one


def exchange_linear(model: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    """Exchange the linear maps of a model that stays as it is for what `make` makes of them.

    The projections of attention with head selection stay: it multiplies with some of their rows.
    """
    for parent in list(model.modules()):
        selective = isinstance(parent, MultiHeadAttention) and parent.selection is not None
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and not (selective and name != "linear_out"):
                setattr(parent, name, make(child))


def speed_up(model: nn.Module) -> None:
    """Exchange the linear maps of a model for `FastLinear`, as `exchange_linear` does, where they compute in float32 on
    a CPU."""
    if AVAILABLE:
        exchange_linear(model, lambda linear: FastLinear(linear) if _is_fit(linear) else linear)


def _is_fit(linear: nn.Linear) -> bool:
    return linear.weight.dtype == torch.float32 and not linear.weight.is_cuda
