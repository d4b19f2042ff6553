"""Head selection: per-language or per-domain heads, selected from a shared pool.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling" (the head-selection paper). Each language or domain selects H of P heads, whose outputs are concatenated as in
standard multi-head attention:

    y = sigmoid((phi + g1 - g2) / tau),  g1, g2 ~ Gumbel(0, 1)                    (4), phi a table of each layer
    subset: the H heads of highest y (5);  group: of each of H groups the head of highest y (6)
    context = concatenation of s_i head_i,  s_i = 1 in value with the gradient of y_i    (7), straight-through

Languages and domains are values of conditions (see `conditions.py`), which are read from the open scope. In training
the noise is drawn once in each forward pass for each value, so samples of one language select the same heads. In
evaluation there is no noise.

Without selection (strategy "none") this is standard multi-head attention.
Cost: that of standard attention with H heads for any P, because only selected heads are projected. Relative positions,
which are the same for all samples, are projected for all P heads if a batch mixes languages.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.head_gather import SelectedHeads
from espnet_diverse.attention.selection_options import SelectionOptions, selection_options
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.selection import (
    bernoulli_kl,
    group_picks,
    logistic_noise,
    official_kl,
    shared_heads,
    soft_sample,
    straight_through,
    subset_picks,
)
from espnet_diverse.scope import current

_FIRST, _LAST = -4.605170185988091, 0.0  # log 0.01 and log 1: where logits start, as released


def build_selection(options: Mapping[str, Any] | None, heads: int) -> "HeadSelection | None":
    """Build the head selection of an attention.

    Args:
        options: `SelectionOptions` by name; None for the defaults.
        heads: Number of heads H that each sample selects.

    Returns:
        A `HeadSelection`, or None for strategy "none".

    Raises:
        ValueError: An option is unknown, has a value that is not allowed, or does not fit the number of heads.
    """
    chosen = selection_options(options or {})
    if chosen.strategy == "none":
        return None
    return StaticSelection(heads, chosen) if chosen.strategy == "static" else LearnedSelection(heads, chosen)


class HeadSelection(nn.Module):
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
        picks, weights = self._choose(values, members)
        return SelectedHeads(picks, self.pool, weights, members)

    def picks(self, condition: str | None = None) -> Tensor:
        """Return the heads of every value in evaluation, (N, H) int64, or (N1, N2, H) for pairs of two conditions.

        Args:
            condition: If heads are selected by several conditions, one of them, whose logits then select alone: the
                result is (N, H).
        """
        raise NotImplementedError

    def _choose(self, values: Sequence[tuple[int, ...]], members: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Return selected heads and straight-through weights, (G, H) each, of G groups.

        Args:
            values: Index of the value of each condition, a tuple for each group.
            members: Index of the group of each sample.
        """
        raise NotImplementedError

    def _groups(self, batch: int) -> tuple[list[tuple[int, ...]], list[int]]:
        """Return the distinct tuples of values among `batch` samples, and the index of its tuple for each sample."""
        samples = list(zip(*(self._ids(condition, batch) for condition in self.names), strict=True))
        number = {values: group for group, values in enumerate(dict.fromkeys(samples))}
        return list(number), [number[values] for values in samples]

    def _ids(self, condition: str, batch: int) -> list[int]:
        names, shared = self.names[condition], current()
        ids: list = shared.condition(condition, batch).tolist() if condition in shared.conditions else [None] * batch
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

    def _choose(self, values: Sequence[tuple[int, ...]], members: Sequence[int]) -> tuple[Tensor, None]:
        return torch.tensor(values, device=self._slots.device) * self.heads + self._slots, None


class LearnedSelection(HeadSelection):
    """Selection by learned logits, a parameter `logits_<condition>` (N, P) for each condition."""

    def __init__(self, heads: int, options: SelectionOptions):
        super().__init__(heads, options)
        if self.pool <= heads:
            raise ValueError(
                f"a pool of {self.pool} leaves {heads} heads nothing to select; give more, or choose strategy none"
            )
        if options.strategy == "group" and self.pool % heads:
            raise ValueError(f"a pool of {self.pool} does not make {heads} groups; give a multiple of {heads}")
        for condition, names in self.names.items():
            self.register_parameter(f"logits_{condition}", nn.Parameter(torch.empty(len(names), self.pool)))
        self.updates = UpdateCounter()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the logits uniformly between log 0.01 and log 1, as in the released code."""
        for condition in self.names:
            nn.init.uniform_(self.logits(condition), _FIRST, _LAST)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` draws all parameters anew, then calls this

    def logits(self, condition: str) -> Tensor:
        """Return the logits of the N values of a condition, (N, P), phi of (4)."""
        return getattr(self, f"logits_{condition}")

    def picks(self, condition: str | None = None) -> Tensor:
        """Return the heads of every value in evaluation, see `HeadSelection.picks`."""
        first, *others = self.names if condition is None else [condition]
        phi = self.logits(first).detach()
        for other in others:
            phi = phi.unsqueeze(-2) + self.logits(other).detach()
        return self._pick(phi)

    def tau(self, updates: Tensor) -> float | Tensor:
        """Return the temperature after a number of updates ()."""
        option = self.options
        if option.tau_schedule == "constant":
            return option.tau
        progress = (updates / option.tau_steps).clamp(max=1)
        if option.tau_schedule == "linear":
            return option.tau + (option.tau_final - option.tau) * progress
        return option.tau * (option.tau_final / option.tau) ** progress

    def _choose(self, values: Sequence[tuple[int, ...]], members: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        indices = zip(self.names, zip(*values, strict=True), strict=True)
        phi = reduce(torch.add, (self.logits(condition)[list(index)] for condition, index in indices))  # (G, P)
        if not self.training:
            return self._pick(phi), None
        updates = self.updates(self.logits(next(iter(self.names))))
        y = soft_sample(phi, logistic_noise(phi), self.tau(updates))
        picks = self._pick(y)
        self._collect(phi, y, picks, updates, members)
        return picks, straight_through(y, picks)

    def _pick(self, scores: Tensor) -> Tensor:
        if self.options.strategy == "subset":
            return subset_picks(scores, self.heads, self.options.subset_order)
        return group_picks(scores, self.heads, self.options.group_layout)

    def _collect(self, phi: Tensor, y: Tensor, picks: Tensor, updates: Tensor, members: Sequence[int]) -> None:
        """Add the KL term of (3), mean over samples, and the share of selected heads that the noise has changed."""
        shared, option = current(), self.options
        if not shared.collect:
            return
        kept = shared_heads(picks, self._pick(phi.detach())).float().mean()
        shared.add_stat("heads_by_noise", 1 - kept / self.heads)
        if option.kl_weight == 0:
            return
        prior = self.heads / self.pool
        kl = bernoulli_kl(phi, prior).sum(-1) if option.kl_form == "bernoulli" else official_kl(y, prior).mean(-1)
        warm = (updates / option.kl_warmup_steps).clamp(max=1) if option.kl_warmup_steps else 1.0
        shared.add_loss("head_kl", option.kl_weight * warm * kl[list(members)].mean())
