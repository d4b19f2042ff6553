"""Device and precision of a loaded model: float32, or linear layers in int8 or bfloat16.

float32   oneDNN with weights that are rearranged once (`fast_linear.py`); results differ in the order of sums.
int8      8-bit weights with a scale for each output, and 8-bit inputs with a scale for each row, on a CPU. Sums are
          exact, so that on x86 a row does not depend on the others.
bfloat16  16-bit weights and inputs of linear layers, with 8 bits of precision; on GPUs, and on CPUs that support it.

Linear layers have nearly all of a transformer's computation and memory. In every precision they take and return
float32; attention, normalisation, softmax and scores stay in float32. So do queries, keys and values of attention with
head selection, which multiplies with the rows of selected heads; a warning reports this.
"""

import logging
import warnings
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.cpu.fast_convolution import fuse_convolutions
from espnet_diverse.cpu.fast_linear import replace_linear, speed_up
from espnet_diverse.decoding.options import PRECISIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.linear import arranged, has_bfloat16, product

log = logging.getLogger(__name__)


class Int8Linear(nn.Module):
    """A linear layer with 8-bit weights, which takes and returns float32, for inference on a CPU.

    Args:
        linear: The layer; the greatest weight of each output becomes 127.

    Attributes:
        most: Whole number that the greatest input of a row becomes. It has one bit less where sums of two products may
            have 16 bits and would overflow: on CPUs without VNNI, and in kernels that may be kept from using it.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        scales = torch.linalg.vector_norm(weight, torch.inf, 1).clamp(min=1e-30).double() / 127  # without a copy
        zero_points = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # these tensors are deprecated; nothing else is as fast on a CPU without VNNI
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch.quantize_per_channel(weight, scales, zero_points, 0, torch.qint8)
        self.bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().float()
        self.packed = torch.ops.quantized.linear_prepack(quantised, None)
        self.has_range = torch.backends.quantized.engine in ("x86", "fbgemm")  # others find the range of a batch
        self.most = 127 if self.has_range and torch.cpu._is_vnni_supported() else 63

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> (..., out)."""
        scales = x.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        operations, rows = torch.ops.quantized, x / scales
        if self.has_range:
            multiply = operations.linear_with_input_q_dq_qweight_dq_output_fp32
            y = multiply(rows, 1 / self.most, self.most + 1, self.packed)
        else:
            y = operations.linear_dynamic(rows, self.packed, reduce_range=self.most < 127)
        return torch.addcmul(self.bias, y, scales)


class HalfLinear(nn.Module):
    """A linear layer in bfloat16 that takes and returns float32, for inference."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = None if linear.bias is None else linear.bias.detach().bfloat16()
        self.weight = linear.weight.detach().bfloat16()
        self.is_arranged = not linear.weight.is_cuda and has_bfloat16()
        if self.is_arranged:
            self.weight = arranged(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> (..., out)."""
        half = x.bfloat16()
        multiply = product if self.is_arranged else F.linear
        return multiply(half, self.weight, self.bias).to(x.dtype)


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have.

    Args:
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        ConfigError: The name is another one, or this GPU does not exist.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, _, index = device.partition(":")
    if device != "cpu" and not (kind == "cuda" and (index or "0").isdecimal() and int(index or 0) < count):
        devices = " ".join(["cpu", *(["cuda"] if count else []), *(f"cuda:{number}" for number in range(count))])
        raise ConfigError(f"device {device!r} is not possible on this machine; possible: {devices}")


def check_precision(precision: str, device: str, compiled: bool = False) -> None:
    """Refuse a precision that is not possible.

    Args:
        precision: Precision of linear layers.
        device: "cpu", "cuda" or "cuda:N".
        compiled: Whether the encoder layers are compiled.

    Raises:
        ConfigError: The precision is unknown, or not possible on the device or with compiled layers.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision {precision!r} is unknown; known: {' '.join(PRECISIONS)}")
    on_cpu = str(device).startswith("cpu")
    if precision == "int8" and not on_cpu:
        raise ConfigError(f"precision int8 is not possible on {device}; use bfloat16 there, or device cpu")
    if compiled and on_cpu and precision != "float32":
        raise ConfigError(f"compile with precision {precision} is not possible on a CPU; leave one of them out")


def set_precision(modules: Iterable[nn.Module], precision: str) -> None:
    """Replace the linear layers of modules for inference, in place.

    Args:
        modules: Modules on one device, in float32; their parameters do not change any more.
        precision: One of `PRECISIONS`.
    """
    selective = False
    for module in modules:
        fuse_convolutions(module)
        if precision == "float32":
            speed_up(module)
        else:
            replace_linear(module, Int8Linear if precision == "int8" else HalfLinear)
            selective = selective or any(map(_selects, module.modules()))
    if selective:
        log.warning("precision %s: projections of attention with head selection stay in float32", precision)


def _selects(module: nn.Module) -> bool:
    return isinstance(module, MultiHeadAttention) and module.selection is not None
