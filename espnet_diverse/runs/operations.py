"""Operations, memory traffic and peak memory of what PyTorch computes: counted, not timed.

Counts are of the computation itself, so that they do not depend on the load of the machine. They are of tensors: memory
inside an operation, such as the workspace of a convolution, is not seen.
"""

import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from espnet_diverse.attention.update_counter import update_counters
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.runs.audio_rate import audio_rate
from espnet_diverse.scope import scope

SECONDS, TOKENS = 10, 30
"""Length of the example that is counted."""
_FRAMES, _UPDATES = 100, 1e6  # features in a second, updates after which schedules have ended
_TEXTS = {
    **dict.fromkeys(("asr", "lm", "electra"), ["text"]),
    **dict.fromkeys(("st", "mt", "cls"), ["text", "src_text"]),
}


class Counts(NamedTuple):
    """Numbers of operations, bytes and calls.

    Attributes:
        products: Floating-point operations of matrix products, convolutions and fused attention.
        elements: Operations of all else, such as softmax, cumulative sums and the optimizer: one for each element of
            the largest tensor that an operation reads or writes.
        traffic: Bytes that operations read and write; views have none.
        calls: Number of operations.
        peak: Largest number of bytes of the tensors that were made and not yet freed.
    """

    products: float = 0
    elements: float = 0
    traffic: float = 0
    calls: float = 0
    peak: float = 0

    @property
    def flops(self) -> float:
        """All floating-point operations."""
        return self.products + self.elements

    def plus(self, other: "Counts", times: float = 1) -> "Counts":
        """The sum of these counts and some multiple of others, each number for itself."""
        return Counts(*(np.array(self) + times * np.array(other)).tolist())


class Counter(TorchDispatchMode):
    """Counts what is computed while it is active, on a CPU also the backward pass.

    with Counter() as counter:
        model(**batch)[0].backward()
    print(counter.counts().flops)
    """

    def __init__(self) -> None:
        super().__init__()
        self._products = self._elements = self._traffic = self._calls = self._live = self._peak = 0
        self._known: set[int] = set()

    def counts(self) -> Counts:
        """The counts until now."""
        return Counts(self._products, self._elements, self._traffic, self._calls, self._peak)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not func.is_view:
            self._add(func._overloadpacket, args, kwargs, result)
        return result

    def _add(self, operation: Any, args: Any, kwargs: Any, result: Any) -> None:
        inputs, made = _tensors((args, kwargs)), _tensors(result)
        if formula := _formula(operation):
            self._products += formula(*args, **kwargs, out_val=result)
        else:
            self._elements += max((value.numel() for value in (*inputs, *made)), default=0)
        self._traffic += sum(map(_bytes, (*inputs, *made)))
        self._calls += 1
        old = {operand.untyped_storage()._cdata for operand in inputs}
        for tensor in made:
            storage = tensor.untyped_storage()
            if storage._cdata not in old | self._known:
                self._known.add(storage._cdata)
                self._live += storage.nbytes()
                weakref.finalize(storage, self._free, storage._cdata, storage.nbytes()).atexit = False
        self._peak = max(self._peak, self._live)

    def _free(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self._live -= size


@torch.no_grad()
def forward_counts(model: nn.Module, config: Mapping[str, Any]) -> Counts:
    """Counts of a forward pass in evaluation, losses included, of one example: 10 s of audio, or 30 tokens a text.

    Args:
        model: The model of a run, which is left in evaluation, with its schedules at their end: at the start of its
            schedule, evaluation leaves out what semantic masks add.
        config: Configuration of the run, with its `task`.
    """
    text = {"text": torch.full((1, TOKENS), 2), "src_text": torch.full((1, TOKENS), 2)}
    rows = {name: text[name] for name in _TEXTS[config["task"]]}
    if config["task"] in ("asr", "st"):
        rate = audio_rate(config)
        shape = (1, SECONDS * rate) if rate else (1, SECONDS * _FRAMES, config["input_size"])
        rows["speech"] = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    lengths = {f"{name}_lengths": torch.tensor([value.size(1)]) for name, value in rows.items()}
    for schedule in update_counters(model):
        schedule.count.fill_(_UPDATES)
    with scope(dict.fromkeys(CONDITIONS, torch.zeros(1, dtype=torch.long))), Counter() as counter:
        model.eval()(**rows, **lengths)
    return counter.counts()


def resident(*objects: Any) -> int:
    """Bytes of the tensors in nested containers, such as parameters and the state of an optimizer, each once."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in _tensors(objects)}
    return sum(storages.values())


def _formula(operation: Any) -> Callable[..., int] | None:
    """The number of operations from arguments and result; None for what is counted by elements."""
    return flop_registry.get(operation) or _OF_CPU.get(operation._qualified_op_name)


_OF_CPU: dict[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda q, k, v, *_, **__: sdpa_flop_count(
        q.shape, k.shape, v.shape
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": lambda gradient, q, k, v, *_, **__: (
        sdpa_backward_flop_count(gradient.shape, q.shape, k.shape, v.shape)
    ),
    "mkldnn::_linear_pointwise": lambda x, weight, *_, **__: 2 * x.numel() * weight.shape[0],
    "mkldnn::_convolution_pointwise": lambda x, weight, *_, out_val, **__: (
        2 * out_val.numel() * weight.shape[1:].numel()
    ),
}
"""Formulas that PyTorch's registry has for GPUs alone."""


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]


def _bytes(tensor: Tensor) -> int:
    """Bytes of a tensor; those of an expanded one are read once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
