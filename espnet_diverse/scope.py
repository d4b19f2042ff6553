"""The state that the modules share in one forward pass: conditions and step in, losses, statistics and weights out.

ESPnet's layers call attention with a fixed signature, `self_attn(query, key, value, mask)`, and its beam search calls
`batch_score(ys, states, xs)`. Language ids and auxiliary losses cannot be passed as arguments of these calls. The model
therefore opens a scope around its forward pass, and attention modules read from and add to the open scope:

    with scope(conditions={"lang": ids}) as shared:
        loss, stats, weight = super().forward(...)
    loss = loss + shared.total_loss()

(`nets/models.py` also scales the losses, so that their weights mean the same for every task.)

This is the only state that forward passes share. It is a `ContextVar`: threads and nested scopes do not see each other.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.functional.copies import copied


@dataclass(frozen=True)
class Step:
    """The place of a training batch.

    Attributes:
        updates: Number of optimizer updates before it, counted over all epochs and across resumptions.
        batch: Number of batches of the epoch before it.
        is_first: Whether it is the first batch of its update.
    """

    updates: int
    batch: int
    is_first: bool = True


class Scope:
    """The shared state of one forward pass.

    Args:
        conditions: For each condition (a name in `conditions.CONDITIONS`), the index of the value that each sample has,
            (B,) int64, or (1,) if all samples have the same value.
        keep_attention: Whether attention modules compute and keep their weights, for plots and analysis.
        collect: Whether modules compute auxiliary losses and statistics. It is False in the default scope, so decoding
            does not compute them.
        statistics: Whether modules compute statistics, if `collect` is set.
        token_count: Function that counts the tokens for losses that are means over tokens, if the batch of this pass is
            part of a larger one; see `nets/reductions.py`.
        step: The place of the batch in training; None where the training loop does not give it.
        paired: Whether the second half of the batch repeats the samples of the first, for losses that compare the two.
        host: `conditions` as lists, as far as they are known; to read them from a GPU the host waits for it.

    Attributes:
        query_mask: Valid positions on the query side of cross-attention, (B, Tq) bool, or None (all valid). ESPnet's
            mask of cross-attention covers only keys, so the decoder sets here which target positions are padding.
    """

    def __init__(
        self,
        conditions: Mapping[str, Tensor] | None = None,
        keep_attention: bool = False,
        collect: bool = True,
        statistics: bool = True,
        token_count: "TokenCount | None" = None,
        step: Step | None = None,
        paired: bool = False,
        host: Mapping[str, list[int]] | None = None,
    ):
        self.conditions = dict(conditions or {})
        self.token_count, self.step, self.paired = token_count, step, paired
        self.query_mask: Tensor | None = None
        self.host = dict(host or {})
        self.keep_attention = keep_attention
        self.collect, self.statistics = collect, collect and statistics
        self._losses: dict[str, list[tuple[Tensor, int]]] = defaultdict(list)  # with the number of modules
        self._waiting: dict[Hashable, list[tuple[Losses, tuple[Tensor, ...]]]] = defaultdict(list)
        self._once: dict[Hashable, tuple[Tensor, Tensor]] = {}
        self._copies: dict[Hashable, Tensor] = {}
        self._stats: dict[str, list[Tensor]] = defaultdict(list)

    def condition(self, name: str, batch: int) -> Tensor:
        """Return the index of the value that each of `batch` samples has for a condition, (batch,) int64.

        Args:
            name: Name of the condition.
            batch: Number of samples.

        Raises:
            ValueError: The condition was not given, or it was given for another number of samples.
        """
        if name not in self.conditions:
            names = " ".join(self.conditions) or "none"
            raise ValueError(f"the {name} of each sample is needed and was not given (given: {names})")
        ids = self.conditions[name]
        if len(ids) not in (1, batch):
            raise ValueError(f"the {name} of {len(ids)} samples was given for a batch of {batch}")
        return ids.expand(batch)

    def listed(self, name: str, batch: int) -> list[int]:
        """Return `condition` as a list: the one of `host`, or read from the device once for all modules."""
        ids = self.condition(name, batch)
        values = self.conditions[name]
        if len(self.host.get(name, ())) != len(values):
            self.host[name] = values.tolist()
        listed = self.host[name]
        return listed if len(listed) == len(ids) else listed * batch

    def lists(self) -> dict[str, list[int]]:
        """Return all conditions as lists, see `listed`."""
        return {name: self.listed(name, len(ids)) for name, ids in self.conditions.items()}

    def copied(self, values: Sequence[int], device: torch.device) -> Tensor:
        """Return integers as a tensor on a device, where they are copied once for all modules that look them up."""
        if not self.conditions or torch.compiler.is_compiling():
            return copied(values, device)
        key = tuple(values), device
        if key not in self._copies:
            self._copies[key] = copied(values, device)
        return self._copies[key]

    def add_loss(self, name: str, value: Tensor) -> None:
        """Add a scalar loss of one module, already weighted, under `name`; ignored if losses are not collected."""
        if self.collect:
            self._losses[name].append((value, 1))

    def add_losses(self, key: Hashable, compute: "Losses", *inputs: Tensor) -> None:
        """Add losses of one module; `losses` computes them in one call for all modules that are alike.

        Ignored if losses are not collected.

        With small inputs, most time is spent on calling many small operations, not on the operations themselves.

        Args:
            key: Modules with equal keys and inputs of equal shapes are computed together. The key must hold everything
                that `compute` depends on; it may hold the `id` of an object that `compute` keeps alive.
            compute: A function of the inputs of N modules, each (N, ...), that returns the mean over the modules of
                each named loss, already weighted.
            inputs: Inputs of this module (...).
        """
        if not self.collect:
            return
        if torch.compiler.is_compiling():  # the compiler joins operations by itself
            self._compute([(compute, inputs)])
        else:
            self._waiting[key, tuple((x.shape, x.dtype) for x in inputs)].append((compute, inputs))

    def once(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return `function(x)`; while losses are collected, it is computed once and shared by all modules."""
        if not self.collect or torch.compiler.is_compiling():
            return function(x)
        key = function, id(x)
        if key not in self._once:
            self._once[key] = x, function(x)  # keeps x, whose id another tensor could get otherwise
        return self._once[key][1]

    def add_stat(self, name: str, value: Tensor | float) -> None:
        """Add a scalar statistic of one module under `name`; it is logged and has no gradient."""
        if self.statistics:
            self._stats[name].append(torch.as_tensor(value).detach())

    def losses(self) -> dict[str, Tensor]:
        """Return the mean over modules of each named loss; (20)-(23) of SDMA average over the N attention layers."""
        for modules in self._waiting.values():
            self._compute(modules)
        self._waiting.clear()
        return {name: _mean(means) for name, means in self._losses.items()}

    def stats(self) -> dict[str, Tensor]:
        """Return the mean over modules of each named statistic."""
        return {name: torch.stack([v.float() for v in values]).mean() for name, values in self._stats.items()}

    def total_loss(self) -> Tensor | float:
        """Return the sum of `losses()`; 0.0 if no module added one."""
        return sum(self.losses().values(), 0.0)

    def _compute(self, modules: list[tuple["Losses", tuple[Tensor, ...]]]) -> None:
        compute, first = modules[0]
        if len(modules) == 1:
            inputs = [x.unsqueeze(0) for x in first]
        else:
            inputs = [torch.stack(of_modules) for of_modules in zip(*(inputs for _, inputs in modules), strict=True)]
        for name, mean in compute(*inputs).items():
            self._losses[name].append((mean, len(modules)))


#: A function of the inputs of N modules, each (N, ...), that returns the mean over the modules of each named loss.
Losses = Callable[..., Mapping[str, Tensor]]
#: A function of the numbers of tokens () and sentences of a batch, as `nets.reductions.token_count`.
TokenCount = Callable[[Tensor, int], Tensor]


def _mean(means: list[tuple[Tensor, int]]) -> Tensor:
    """Compute the mean over all modules from means over groups of them, each with the size of its group."""
    values, counts = zip(*means, strict=True)
    if set(counts) == {1}:
        return torch.stack(values).mean()
    return torch.stack([value * (count / sum(counts)) for value, count in means]).sum()


_CLOSED = Scope(collect=False)
_CURRENT: ContextVar[Scope] = ContextVar("espnet_diverse_scope", default=_CLOSED)


def current() -> Scope:
    """Return the open scope, or the default scope, which has no conditions and collects nothing."""
    return _CURRENT.get()


@contextmanager
def scope(
    conditions: Mapping[str, Tensor] | None = None,
    keep_attention: bool = False,
    *,
    step: Step | None = None,
    **options: Any,
) -> Iterator[Scope]:
    """Open a scope for one forward pass.

    Takes the arguments of `Scope`; `step` defaults to the step of the enclosing scope.
    """
    token = _CURRENT.set(Scope(conditions, keep_attention, step=step or _CURRENT.get().step, **options))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)
