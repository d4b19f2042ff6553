"""Building of a model whose weights are then loaded into it: within bounds of its size, and with one copy of them.

A configuration of a few bytes can ask for any number of blocks and any width. The weights say what the model really
has, so building stops as soon as the model has several times as many parameters. And a constructor draws values of all
parameters, which takes time, and as much memory again as the weights.

PyTorch calls the hooks below before a layer initialises what it registers: memory that was only reserved until then.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from espnet_diverse.errors import ModelError

_TIMES = 4
"""Our nets build a layer of ESPnet and replace its attention, and a layer may make a parameter twice."""
_MORE_TENSORS = 1000
_LARGE = 2**16  # values of a parameter; constructors may read smaller ones, such as the first logits of heads
_WRITES = re.compile("(?<!requires_gra)[^_]_$")
"""Names of functions that write, such as normal_, but not requires_grad_ or __get__."""
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


@contextmanager
def without_values() -> Iterator[None]:
    """Give large parameters that are registered in the block a shape, but no values and no memory, until `fill`.

    They are on the device "meta". Small parameters, and buffers, such as positions and windows, are as usual.
    """
    thread = get_ident()
    replaced = WeakIdKeyDictionary()  # a parameter that two modules share is one parameter after it, too

    def empty(module: nn.Module, name: str, value: nn.Parameter | None) -> nn.Parameter | None:
        if value is None or value.is_meta or value.numel() < _LARGE or get_ident() != thread:
            return value
        if value not in replaced:
            replaced[value] = nn.Parameter(value.detach().to("meta"), value.requires_grad)
        return replaced[value]

    hook = register_module_parameter_registration_hook(empty)  # type: ignore[arg-type]  # it takes what this returns
    try:
        with _NoInitialisation():
            yield
    finally:
        hook.remove()


class _NoInitialisation(TorchFunctionMode):
    """Skips functions that change parameters without values, for which PyTorch would import a second of modules."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        named = kwargs or {}
        value = args[0] if args else named.get("tensor")  # functions of nn.init pass it by name
        writes = isinstance(value, nn.Parameter) and value.is_meta and _WRITES.search(func.__name__)
        return value if writes else func(*args, **named)


def fill(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Make the tensors of `state` the values of the parameters of a model that was built `without_values`.

    Args:
        model: The model; parameters with values stay as they are.
        state: Values by name, for all parameters without values. A tensor of the type of its parameter is not copied,
            unless it shares its memory.
    """
    filled: dict[int, nn.Parameter] = {}
    taken: set[int] = set()  # memory of values
    for name, value in list(model.named_parameters(remove_duplicate=False)):
        if not value.is_meta:
            continue
        if id(value) not in filled:
            tensor = state[name].detach().to(value.dtype).contiguous()
            storage = tensor.untyped_storage()
            if storage.nbytes() != tensor.nbytes or storage.data_ptr() in taken:
                tensor = tensor.clone()  # it would keep all of a file, or change with another parameter
            taken.add(storage.data_ptr())
            filled[id(value)] = nn.Parameter(tensor, value.requires_grad)
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, filled[id(value)])
