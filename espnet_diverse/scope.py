"""What one forward pass shares: values of conditions in; named losses, statistics and attention maps out.

ESPnet's layers call attention with a fixed signature, `self_attn(query, key, value, mask)`, and its beam search calls
`batch_score(ys, states, xs)`. Language ids and extra losses therefore cannot travel as arguments. The model opens a
scope around its forward pass, and attention modules below it read from and add to the scope that is open:

    with scope(conditions={"lang": ids}) as shared:
        loss, stats, weight = super().forward(...)
    loss = loss + shared.total_loss()

This is the only ambient state of the package. It is a `ContextVar`: threads and nested scopes do not see each other.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class Scope:
    """The shared state of one forward pass.

    Attributes:
        conditions: By condition the index of its value for each sample, (B,) int64; B is 1 where all samples have
            the same.
        query_mask: Valid positions on the query side of cross-attention, (B, Tq) bool, or None (all valid). ESPnet's
            cross-attention mask speaks of keys only, so the decoder says here which target positions are padding.
        keep_attention: Whether attention modules must compute and keep their weights (plots, analysis).
        collect: Whether losses are wanted. False in the default scope, so that decoding pays for none.
    """

    def __init__(
        self, conditions: Mapping[str, Tensor] | None = None, keep_attention: bool = False, collect: bool = True
    ):
        self.conditions = dict(conditions or {})
        self.query_mask: Tensor | None = None
        self.keep_attention = keep_attention
        self.collect = collect
        self._losses: dict[str, list[Tensor]] = defaultdict(list)
        self._stats: dict[str, list[Tensor]] = defaultdict(list)

    def condition(self, name: str, batch: int) -> Tensor:
        """Index of the value of the condition `name` for each of `batch` samples, (batch,) int64.

        Raises:
            ValueError: The condition was not given, or for another number of samples.
        """
        if name not in self.conditions:
            given = " ".join(self.conditions) or "none"
            raise ValueError(f"the {name} of each sample is needed and was not given (given: {given})")
        ids = self.conditions[name]
        if len(ids) not in (1, batch):
            raise ValueError(f"the {name} of {len(ids)} samples was given for a batch of {batch}")
        return ids.expand(batch)

    def add_loss(self, name: str, value: Tensor) -> None:
        """Add one module's already weighted scalar loss under `name`; ignored where losses are not collected."""
        if self.collect:
            self._losses[name].append(value)

    def add_stat(self, name: str, value: Tensor | float) -> None:
        """Add one module's scalar statistic under `name`; it is logged and never differentiated."""
        if self.collect:
            self._stats[name].append(torch.as_tensor(value).detach())

    def losses(self) -> dict[str, Tensor]:
        """Mean over modules of each named loss: equations (20)-(23) of SDMA average over the N attention layers."""
        return {name: torch.stack(values).mean() for name, values in self._losses.items()}

    def stats(self) -> dict[str, Tensor]:
        """Mean over modules of each named statistic."""
        return {name: torch.stack([v.float() for v in values]).mean() for name, values in self._stats.items()}

    def total_loss(self) -> Tensor | float:
        """Sum of `losses()`; 0.0 where no module added one."""
        return sum(self.losses().values(), 0.0)


_CLOSED = Scope(collect=False)
_CURRENT: ContextVar[Scope] = ContextVar("espnet_diverse_scope", default=_CLOSED)


def current() -> Scope:
    """The scope that is open here, or the default one, which has no conditions and collects nothing."""
    return _CURRENT.get()


@contextmanager
def scope(
    conditions: Mapping[str, Tensor] | None = None, keep_attention: bool = False, collect: bool = True
) -> Iterator[Scope]:
    """Open a scope for one forward pass.

    Args:
        conditions: By condition (a name in `conditions.CONDITIONS`) the index of its value for each sample, (B,) or
            (1,) int64.
        keep_attention: Ask attention modules to keep their weights in `module.attn`.
        collect: Whether modules compute and add auxiliary losses.
    """
    token = _CURRENT.set(Scope(conditions, keep_attention, collect))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)
