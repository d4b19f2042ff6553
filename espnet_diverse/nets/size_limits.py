"""Bounds of the size of a model while it is built, from the weights that are then loaded into it.

A configuration of a few bytes can ask for any number of blocks and any width. The weights say what the model really
has, so building stops as soon as the model has several times as many parameters. PyTorch calls the hooks below before a
layer initialises what it registers: memory that was only reserved until then.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from espnet_diverse.errors import ModelError

_TIMES = 4
"""Our nets build a layer of ESPnet and replace its attention, and a layer may make a parameter twice."""
_MORE_TENSORS = 1000
_MORE_VALUES = 50_000_000  # buffers that are not saved, such as positions and windows


@contextmanager
def bounded_by(state: Mapping[str, Tensor], source: str | Path) -> Iterator[None]:
    """Stop the building of a model in the block if it grows far beyond its weights.

    Args:
        state: Parameters and buffers by name, which will be loaded into the model.
        source: The file that they are from, for messages.

    Raises:
        ModelError: The model has several times as many parameters or values as there are weights.
    """
    tensors = [value for value in state.values() if isinstance(value, Tensor)]
    most_tensors = _TIMES * len(tensors) + _MORE_TENSORS
    most_values = _TIMES * sum(value.numel() for value in tensors) + _MORE_VALUES
    built = {"tensors": 0, "values": 0}
    thread = get_ident()

    def count(module: nn.Module, name: str, value: Tensor | None) -> None:
        if value is None or get_ident() != thread:  # hooks act on the whole process, where others may build models, too
            return
        built["tensors"] += 1
        built["values"] += value.numel()
        if built["tensors"] > most_tensors or built["values"] > most_values:
            has = f"{len(tensors)} tensors of {sum(tensor.numel() for tensor in tensors)} values"
            reason = f"the configuration asks for a far larger model than these weights, which have {has}"
            raise ModelError(f"{source}: {reason}; give the configuration that they were trained with")

    hooks = register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
