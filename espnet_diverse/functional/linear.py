"""A linear map on a CPU, forward and backward with the matrix products of oneDNN.

    y = x W^T + b,    dL/dx = dL/dy W,    dL/dW = (dL/dy)^T x,    dL/db = sum of the rows of dL/dy

PyTorch computes float32 products with MKL. oneDNN, also a part of PyTorch, is faster on some CPUs and for some sizes
(`cpu/linear_kernels.py` measures which). Both sum in float32, in different orders.
For inference oneDNN also takes weights in its own memory layout, see `arranged`.
"""

import torch
from torch import Tensor

_ops = torch.ops.mkldnn
AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(_ops, "_linear_pointwise")
_ROWS = 512  # number of input rows that weights are arranged for; measured to be good from 1 to 1,600


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x W^T + b: x (..., in), weight (out, in), bias (out,) or None -> (..., out).

    All tensors are float32 on a CPU, x is not empty, and `AVAILABLE` is true.
    """
    return _Linear.apply(x, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor):
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            product(gradient, weight.t()) if of_x else None,
            _of_weight(x.reshape(-1, x.size(-1)), gradient.reshape(-1, gradient.size(-1))) if of_weight else None,
            gradient.reshape(-1, gradient.size(-1)).sum(0) if of_bias else None,
        )


def _of_weight(x: Tensor, gradient: Tensor) -> Tensor:
    """x (N, in), gradient (N, out) -> (out, in). oneDNN copies its first operand, so the narrower one goes first."""
    if x.size(1) < gradient.size(1):
        return product(x.t(), gradient.t()).t()
    return product(gradient.t(), x.t())


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Compute `linear`, then ReLU if asked, without gradients. The weight may be `arranged`; all may be bfloat16."""
    return _ops._linear_pointwise.default(x, weight, bias, "relu" if relu else "none", [], "")


def arranged(weight: Tensor) -> Tensor:
    """Return a copy of weight (out, in) in the memory layout of oneDNN, which only `product` can read."""
    return _ops._reorder_linear_weight(weight.detach(), _ROWS)


def column_major(weight: Tensor) -> Tensor:
    """Return a copy of weight (out, in) whose columns are contiguous, which MKL multiplies faster on some CPUs."""
    return weight.detach().t().contiguous().t()


def has_bfloat16() -> bool:
    """Return whether this CPU multiplies in bfloat16."""
    return AVAILABLE and _ops._is_mkldnn_bf16_supported()
