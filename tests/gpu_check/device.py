"""Tensors that say they are on `cuda:0` and hold their values on the CPU.

Operations, backward passes and autocast take the way of a GPU, with the values of the CPU: what depends on a value, a
shape or a length, does what it would do. Tensors of both devices in one operation raise an error, and each operation
for which the host waits for a GPU is recorded with the line that asks for it:

    with Device() as device:
        model(move(x)).sum().backward()
    device.waits   # Counter of `Wait`

A copy from pinned memory that does not block is no wait. It needs `no_driver.c` and `libcuda.c`, see `__main__.py`.
"""

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from espnet2 import __file__ as espnet_file
from torch import Tensor, nn
from torch.autograd import graph
from torch.utils._python_dispatch import TorchDispatchMode

from espnet_diverse import __file__ as package_file

OURS, ESPNET, TORCH = (Path(file).parent for file in (package_file, espnet_file, torch.__file__))
HERE = Path(__file__).parent

#: Operations that read values of the device: a number, or a shape that depends on values.
_READS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "equal",
    "is_nonzero",
    "bincount",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "repeat_interleave",
    "histc",
}
#: Operations that take tensors of both devices.
_TWO_DEVICES = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "_pack_padded_sequence"}


class Wait(NamedTuple):
    """A wait for the device: whose code asks for it (ours, ESPnet, torch), file, function, line, and the operation."""

    whose: str
    file: str
    function: str
    line: int
    operation: str


class MixedDevicesError(RuntimeError):
    """An operation got tensors of the host and of the device."""


class OnDevice(Tensor):
    """A tensor of the device; `host` has its values."""

    host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor):
        layout = {"strides": host.stride(), "storage_offset": host.storage_offset(), "dtype": host.dtype}
        return Tensor._make_wrapper_subclass(cls, host.size(), device="cuda:0", **layout)

    def __init__(self, host: Tensor):
        self.host = host

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copied = OnDevice(self.host.detach().clone())
            memo[id(self)] = nn.Parameter(copied, self.requires_grad) if isinstance(self, nn.Parameter) else copied
        return memo[id(self)]

    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, spec):
        return format(self.item() if self.dim() == 0 else str(self.cpu()), spec)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class Device(TorchDispatchMode):
    """Makes tensors of the device, and records waits.

    Attributes:
        waits: The waits and how often each was made.
        shapes: Shapes of the operands of each operation, within `shapes_of_operands`.
    """

    def __init__(self):
        super().__init__()
        self.waits: Counter[Wait] = Counter()
        self.shapes: list[tuple[str, list[torch.Size]]] | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {}, self)

    def __enter__(self):
        global _device
        _device = self
        return super().__enter__()

    def of_code(self, whose: str = "ours") -> Counter:
        """Return the waits that one's code asks for."""
        return Counter({wait: count for wait, count in self.waits.items() if wait.whose == whose})


_device: Device | None = None


def _run(func: Callable, args: tuple, kwargs: Mapping[str, Any], device: Device | None = None) -> Any:
    """Run an operation on the values, and give its results the device of its operands or of its `device`."""
    of_host: dict[int, OnDevice] = {}
    host_only: list[Tensor] = []

    def values(x):
        if isinstance(x, OnDevice):
            of_host[id(x.host)] = x
            return x.host
        if isinstance(x, Tensor) and x.dim():
            host_only.append(x)
        return x

    plain, named = [_each(values, x) for x in args], {key: _each(values, x) for key, x in kwargs.items()}
    name = func.__name__.split(".")[0]
    if name in ("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"):
        return False
    if of_host and host_only and name not in _TWO_DEVICES:
        raise MixedDevicesError(f"{name}: a tensor of {tuple(host_only[0].shape)} on the host")
    on_device = bool(of_host)
    if named.get("device") is not None:
        on_device = torch.device(named["device"]).type == "cuda"
        named["device"] = torch.device("cpu")
    if name == "copy_":
        on_device = isinstance(args[0], OnDevice)
    reason = _reason(name, args, kwargs, bool(of_host), on_device)
    if _device is not None and reason:
        _device.waits[_asked(reason)] += 1
    if _device is not None and _device.shapes is not None:
        _device.shapes.append((name, [x.shape for x in plain if isinstance(x, Tensor)]))

    def placed(x):
        if not isinstance(x, Tensor) or id(x) in of_host:
            return of_host.get(id(x), x)
        return OnDevice(x) if on_device else x

    out = func(*plain, **named)
    if torch.Tag.inplace_view in func.tags and of_host:
        args[0].data = OnDevice(args[0].host)  # of another shape
    return _each(placed, out)


def _each(function: Callable, x: Any) -> Any:
    """Apply a function to a value, or to each of a list; `tree_map` takes most of the time here."""
    return type(x)(_each(function, each) for each in x) if type(x) in (list, tuple) else function(x)


def _reason(name: str, args: tuple, kwargs: Mapping, read: bool, made: bool) -> str | None:
    """Return for what the host waits in an operation; None if it does not wait."""
    if name in _READS and read and kwargs.get("output_size") is None:
        return name
    if name in ("index", "index_put", "index_put_", "_index_put_impl_") and read:
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            return f"{name} by a mask"
        return None if all(isinstance(index, OnDevice) for index in indices) else f"{name} by an index of the host"
    if name in ("_to_copy", "copy_"):
        source = args[0] if name == "_to_copy" else args[1]
        from_device = isinstance(source, OnDevice)
        if from_device != made:
            free = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
            if made and free and getattr(source, "is_in_pinned_memory", False):
                return None
            return "copy to the device" if made else "copy to the host"
    return None


def _asked(reason: str) -> Wait:
    """Return the innermost place outside torch and this check."""
    frame = sys._getframe(2)
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        for whose, folder in (("ours", OURS), ("ESPnet", ESPNET)):
            if file.is_relative_to(folder):
                return Wait(whose, str(file.relative_to(folder)), frame.f_code.co_qualname, frame.f_lineno, reason)
        frame = frame.f_back
    return Wait("torch", "", "", 0, reason)


@contextmanager
def shapes_of_operands() -> Iterator[list[tuple[str, list[torch.Size]]]]:
    """Record each operation with the shapes of its operands while the block runs."""
    assert _device is not None
    _device.shapes = seen = []
    try:
        yield seen
    finally:
        _device.shapes = None


def move(x: Any) -> Any:
    """Return tensors on the device; parameters and buffers of a module are replaced, and shared ones stay shared."""
    if isinstance(x, Mapping):
        return {key: move(value) for key, value in x.items()}
    if isinstance(x, Tensor):
        return x if isinstance(x, OnDevice) else OnDevice(x)
    if not isinstance(x, nn.Module):
        return x
    moved: dict[int, Tensor] = {}
    for module in x.modules():
        for table in (module._parameters, module._buffers):
            for name, old in table.items():
                if old is not None and id(old) not in moved:
                    new = OnDevice(old.detach())
                    moved[id(old)] = nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new
                table[name] = None if old is None else moved[id(old)]
    return x


@contextmanager
def claimed_gpu() -> Iterator[None]:
    """Let PyTorch take a GPU for granted, without a driver."""
    library = ctypes.CDLL(os.environ["NO_DRIVER"])
    gpus = ctypes.c_int.in_dll(library, "claimed_gpus")
    run_backward = graph._engine_run_backward

    def backward(*args, **kwargs):
        gpus.value = 127  # the number that autograd's threads are made for
        try:
            return run_backward(*args, **kwargs)
        finally:
            gpus.value = 0

    def pinned(x: Tensor, *_):
        copied = x.clone()
        copied.is_in_pinned_memory = True
        return copied

    def enter(self: torch.inference_mode) -> None:  # tensors of inference mode would go past `_run`
        self.replaced = torch.no_grad() if self.mode else torch.enable_grad()
        self.replaced.__enter__()

    def leave(self: torch.inference_mode, *error) -> None:
        self.replaced.__exit__(*error)

    torch._C._ensureCUDADeviceGuardSet()
    lifted = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor(..., device="cuda")` is a copy that a mode sees
    try:
        with (
            mock.patch.object(torch.cuda, "_lazy_init", lambda: None),
            mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
            mock.patch.object(torch.cuda, "is_bf16_supported", lambda *_, **__: True),
            mock.patch.object(graph, "_engine_run_backward", backward),
            mock.patch.object(torch.autograd, "_engine_run_backward", backward),
            mock.patch.object(Tensor, "pin_memory", pinned),
            mock.patch.object(torch.inference_mode, "__enter__", enter),
            mock.patch.object(torch.inference_mode, "__exit__", leave),
            torch.backends.cudnn.flags(enabled=False),
        ):
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(lifted)
