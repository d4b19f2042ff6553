"""Compiled layers of a model, by `torch.compile`, with the same parameters and names.

Our attention modules are not compiled, see `Uncompiled` in `attention/uncompiled.py`.
"""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from espnet_diverse.errors import ConfigError


def compile_layers(model: nn.Module, backend: str | bool) -> None:
    """Compile the layers of a model's encoder and decoder, or of its language model, for all lengths.

    Args:
        model: A model of ESPnet or of this package.
        backend: Name of a backend of `torch.compile`; True selects PyTorch's default, inductor.

    Raises:
        ConfigError: The backend is unknown, this machine has no compiler, or the model has no layers of a transformer.
    """
    known = torch._dynamo.list_backends(exclude_tags=())
    if backend is not True and backend not in known:
        raise ConfigError(f"compile {backend!r} is unknown; give true, false or a backend: {' '.join(sorted(known))}")
    compiler = os.environ.get("CXX", "g++")
    if backend in (True, "inductor") and shutil.which(compiler) is None:
        raise ConfigError(f"compile is not possible: there is no C++ compiler {compiler}; install it, or set false")
    stacks = [getattr(part, name, None) for part in model.modules() for name in ("encoders", "decoders")]
    layers = [layer for stack in stacks if isinstance(stack, nn.Module) for layer in stack]
    if not layers:
        raise ConfigError(f"compile is not possible: {type(model).__name__} has no layers of a transformer; set false")
    for layer in layers:
        layer.compile(backend="inductor" if backend is True else backend, dynamic=True)


def uncompiled(single: bool) -> AbstractContextManager:
    """Run compiled layers as they were, if a batch is a single utterance.

    The compiler takes a size of 1 for a constant, and would compile each layer again for it.
    """
    return torch.compiler.set_stance("force_eager") if single else nullcontext()
