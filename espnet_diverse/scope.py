"""The state that the modules share in one forward pass: conditions in, losses, statistics and attention weights out.

ESPnet's layers call attention with a fixed signature, `self_attn(query, key, value, mask)`, and its beam search calls
`batch_score(ys, states, xs)`. Language ids and auxiliary losses cannot be passed as arguments of these calls. The model
therefore opens a scope around its forward pass, and attention modules read from and add to the open scope:

    with scope(conditions={"lang": ids}) as shared:
        loss, stats, weight = super().forward(...)
    loss = loss + shared.total_loss()

(`nets/models.py` also scales the losses, so that their weights mean the same for every task.)

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

    Args:
        conditions: For each condition (a name in `conditions.CONDITIONS`), the index of the value that each sample has,
            (B,) int64, or (1,) if all samples have the same value.
        keep_attention: Whether attention modules compute and keep their weights, for plots and analysis.
        collect: Whether modules compute auxiliary losses and statistics. It is False in the default scope, so decoding
            does not compute them.

    Attributes:
        query_mask: Valid positions on the query side of cross-attention, (B, Tq) bool, or None (all valid). ESPnet's
            mask of cross-attention covers only keys, so the decoder sets here which target positions are padding.
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
        """Return the index of the value that each of `batch` samples has for a condition, (batch,) int64.

        Args:
            name: Name of the condition.
            batch: Number of samples.

        Raises:
            ValueError: The condition was not given, or it was given for another number of samples.
        """
        if name not in self.conditions:
            given = " ".join(self.conditions) or "none"
            raise ValueError(f"the {name} of each sample is needed and was not given (given: {given})")
        ids = self.conditions[name]
        if len(ids) not in (1, batch):
            raise ValueError(f"the {name} of {len(ids)} samples was given for a batch of {batch}")
        return ids.expand(batch)

    def add_loss(self, name: str, value: Tensor) -> None:
        """Add a scalar loss of one module, already weighted, under `name`; ignored if losses are not collected."""
        if self.collect:
            self._losses[name].append(value)

    def add_stat(self, name: str, value: Tensor | float) -> None:
        """Add a scalar statistic of one module under `name`; it is logged and has no gradient."""
        if self.collect:
            self._stats[name].append(torch.as_tensor(value).detach())

    def losses(self) -> dict[str, Tensor]:
        """Return the mean over modules of each named loss; (20)-(23) of SDMA average over the N attention layers."""
        return {name: torch.stack(values).mean() for name, values in self._losses.items()}

    def stats(self) -> dict[str, Tensor]:
        """Return the mean over modules of each named statistic."""
        return {name: torch.stack([v.float() for v in values]).mean() for name, values in self._stats.items()}

    def total_loss(self) -> Tensor | float:
        """Return the sum of `losses()`; 0.0 if no module added one."""
        return sum(self.losses().values(), 0.0)


_CLOSED = Scope(collect=False)
_CURRENT: ContextVar[Scope] = ContextVar("espnet_diverse_scope", default=_CLOSED)


def current() -> Scope:
    """Return the open scope, or the default scope, which has no conditions and collects nothing."""
    return _CURRENT.get()


@contextmanager
def scope(
    conditions: Mapping[str, Tensor] | None = None, keep_attention: bool = False, collect: bool = True
) -> Iterator[Scope]:
    """Open a scope for one forward pass.

    Args:
        conditions: For each condition (a name in `conditions.CONDITIONS`), the index of the value that each sample has,
            (B,) int64, or (1,) if all samples have the same value.
        keep_attention: Whether attention modules keep their weights in `module.attn`.
        collect: Whether modules compute and add auxiliary losses and statistics.
    """
    token = _CURRENT.set(Scope(conditions, keep_attention, collect))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)
