"""Training in bfloat16.

`use_amp: true` computes linear maps and attention in bfloat16 under PyTorch's autocast, on a GPU or a CPU; parameters,
their updates and checkpoints stay float32. ESPnet's own `use_amp` has no effect on a CPU, and uses float16 on a GPU
without bfloat16, where the squared distances of semantic masks overflow; here that is an error. bfloat16 has the range
of float32, so the loss is not scaled.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from espnet_diverse.errors import ConfigError


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Exclude cuDNN's kernels from PyTorch's attention while the block runs.

    From version 2.11 on PyTorch prefers these for half precision on an H100. With a mask, their gradient of the queries
    is NaN where the log-sum-exp of a row is below -88, as it is of padding that sees no key of its window or segment,
    and the number of keys is 64 above a multiple of 128 (issue 196678 of PyTorch).
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@contextmanager
def mixed_precision(model: nn.Module, device: str) -> Iterator[None]:
    """Make autocast in the code of `model` and its parts use bfloat16 while the block runs.

    Args:
        model: The model that is trained.
        device: "cpu" or "cuda".

    Raises:
        ConfigError: The GPU has no bfloat16.
    """
    if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name()
        raise ConfigError(f"use_amp true is not possible: {name} has no bfloat16; set use_amp=false")

    def autocast(*first: str | bool, enabled: bool = True, **_: torch.dtype) -> torch.autocast:
        off = first[:1] == (False,)  # `enabled` comes first in `torch.cuda.amp.autocast`
        return torch.autocast(device, torch.bfloat16, enabled=enabled and not off)

    # ESPnet's models, and encoders such as BEATs, switch autocast off while they extract features, by a global name of
    # their module, and for CUDA alone: the one name of another package that is replaced. A process trains one model at
    # a time, see `training/checkpoints/run_lock.py`.
    names = {cls.__module__ for part in model.modules() for cls in type(part).__mro__}
    modules = [vars(sys.modules[name]) for name in names if name.startswith("espnet2.")]
    before = [(module, module["autocast"]) for module in modules if "autocast" in module]
    with without_cudnn_attention():
        try:
            for module, _ in before:
                module["autocast"] = autocast
            yield
        finally:
            for module, original in before:
                module["autocast"] = original
