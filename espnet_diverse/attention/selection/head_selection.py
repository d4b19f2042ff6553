"""Head selection: per-language or per-domain heads, selected from a shared pool.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling" (the head-selection paper). Each language or domain selects H of P heads, whose outputs are concatenated as in
standard multi-head attention:

    context = concatenation of s_i head_i,  s_i = 1 if head i is selected             (7)

Languages and domains are values of conditions (see `conditions.py`), which are read from the open scope. This module
has the base class of all strategies and "static", which learns nothing; "group" and "subset" are in
`learned_selection.py`.

Without selection (strategy "none") this is standard multi-head attention.
Cost: as standard attention with H heads for any P, because only selected heads are projected. Relative positions, which
are the same for all samples, are projected for all P heads if a batch mixes languages.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from espnet_diverse.attention.inspection import Monitored
from espnet_diverse.attention.selection.head_gather import SelectedHeads
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.scope import current


class HeadSelection(Monitored, ABC):
    """Selects H heads of a pool for each sample.

    Args:
        heads: Number of heads H that each sample selects.
        options: Options of the selection.

    Attributes:
        pool: Number of heads P in the pool.
        names: Values of each condition, in the order of their indices.
    """

    def __init__(self, heads: int, options: SelectionOptions):
        super().__init__()
        self.heads, self.pool = heads, options.pool
        self.options = options
        self.names = {condition: list(options.conditions[condition]) for condition in options.selected_by}

    def forward(self, batch: int) -> SelectedHeads:
        """Select the heads of each of `batch` samples by the values of its conditions in the open scope.

        Raises:
            ValueError: A value is unknown or not given, and there is no default.
        """
        values, members = self._groups(batch)
        picks, weights, unselected = self._choose(values, members)
        return SelectedHeads(picks, self.pool, weights, members, unselected)

    @abstractmethod
    def picks(self, condition: str | None = None) -> Tensor:
        """Return the heads of every value in evaluation, (N, H) int64, or (N1, N2, H) for pairs of two conditions.

        Args:
            condition: If heads are selected by several conditions, one of them, whose logits then select alone: the
                result is (N, H).
        """

    def places(self) -> Tensor:
        """Return the place in the context, 0 to H - 1, that each head of the pool would first be selected for, (P,)."""
        return torch.arange(self.pool) % self.heads

    @abstractmethod
    def _choose(
        self, values: Sequence[tuple[int, ...]], members: Sequence[int]
    ) -> tuple[Tensor, Tensor | None, Sequence[SelectedHeads]]:
        """Return selected heads and straight-through weights, (G, H) each, of G groups; and heads that get gradients.

        Args:
            values: Index of the value of each condition, a tuple for each group.
            members: Index of the group of each sample.
        """

    def _groups(self, batch: int) -> tuple[list[tuple[int, ...]], list[int]]:
        """Return the distinct tuples of values among `batch` samples, and the index of its tuple for each sample."""
        samples = list(zip(*(self._ids(condition, batch) for condition in self.names), strict=True))
        number = {values: group for group, values in enumerate(dict.fromkeys(samples))}
        return list(number), [number[values] for values in samples]

    def _ids(self, condition: str, batch: int) -> list[int]:
        names, shared = self.names[condition], current()
        ids: list = shared.listed(condition, batch) if condition in shared.conditions else [None] * batch
        if all(i in range(len(names)) for i in ids):
            return ids
        if condition in self.options.default_condition:
            default = names.index(self.options.default_condition[condition])
            return [i if i in range(len(names)) else default for i in ids]
        wrong = next(i for i in ids if i not in range(len(names)))
        fault = "was not given" if wrong is None else f"{wrong} is unknown"
        raise ValueError(f"head selection: the {condition} of a sample {fault}; known, from 0 on: {' '.join(names)}")

    def extra_repr(self) -> str:
        return f"{self.options.strategy}, heads={self.heads}, pool={self.pool}, names={self.names}"


class StaticSelection(HeadSelection):
    """Each family of languages or domains has its own H heads; nothing is learned."""

    _slots: Tensor

    def __init__(self, heads: int, options: SelectionOptions):
        super().__init__(heads, options)
        (names,) = self.names.values()
        families = options.families_of(names)
        self.pool = len(families) * heads
        self.family = [next(i for i, family in enumerate(families) if name in family) for name in names]
        self.register_buffer("_slots", torch.arange(heads), persistent=False)

    def picks(self, condition: str | None = None) -> Tensor:
        """Return the heads of every value, (N, H) int64."""
        return self._choose([(family,) for family in self.family], [])[0]

    def _ids(self, condition: str, batch: int) -> list[int]:
        """Map each language to its family, so that all languages of a family are one group."""
        return [self.family[i] for i in super()._ids(condition, batch)]

    def _choose(
        self, values: Sequence[tuple[int, ...]], members: Sequence[int]
    ) -> tuple[Tensor, None, Sequence[SelectedHeads]]:
        families = current().copied([family for (family,) in values], self._slots.device)
        return families.unsqueeze(1) * self.heads + self._slots, None, ()
