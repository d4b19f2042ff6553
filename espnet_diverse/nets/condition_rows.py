"""Lookup of the row of a parameter that each sample uses: one row for each language, domain, or combination of them."""

from collections.abc import Mapping, Sequence
from itertools import product

import torch
from torch import Tensor, nn

from espnet_diverse.attention.selection.selection_options import checked_values
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, DataError, prefixed
from espnet_diverse.option_checks import read
from espnet_diverse.scope import current


class ConditionRows(nn.Module):
    """Maps the conditions of the open scope to rows; it has no parameters and saves nothing.

    Args:
        option: Name of the option that uses it, for messages: `adapter` or `start_tag`.
        by: A condition of `conditions.CONDITIONS`, or several.
        conditions: Values of each condition, in the order of their indices.
        combinations: Combinations that have a row, each with one value for each condition of `by`; None gives a row to
            every combination.

    Raises:
        ConfigError: A condition or a value is unknown, listed twice, or missing.
    """

    rows: Tensor

    def __init__(
        self,
        option: str,
        by: str | Sequence[str],
        conditions: Mapping[str, Sequence[str]],
        combinations: Sequence[Sequence[str]] | None = None,
    ):
        super().__init__()
        self.option = option
        with prefixed(option):
            values = checked_values(by, conditions)
        self.by, self.names = list(values), list(values.values())
        self.labels = list(product(*self.names)) if combinations is None else [tuple(c) for c in combinations]
        rows = torch.full([len(names) for names in self.names], -1)
        for row, label in enumerate(self.labels):
            rows[self._index(label)] = row
        self._check_distinct()
        self.register_buffer("rows", rows, persistent=False)

    def __len__(self) -> int:
        return len(self.labels)

    def forward(self, batch: int) -> Tensor:
        """Return the row of each of `batch` samples, (batch,) int64, or (1,) if the scope has one value for all.

        Raises:
            DataError: A condition of a sample is not in the scope, its value is unknown, or its values have no row.
        """
        ids = tuple(self._ids(condition, batch) for condition in self.by)
        listed = [current().listed(condition, batch) for condition in self.by]
        for values in dict.fromkeys(zip(*listed, strict=True)):
            if any(i not in range(len(names)) for i, names in zip(values, self.names, strict=True)):
                raise DataError(f"{self.option}: condition index out of range; known: {self._known()}")
            label = tuple(names[i] for i, names in zip(values, self.names, strict=True))
            if label not in self.labels:
                raise DataError(f"{self.option}: there is none for {' '.join(label)}; known: {self._known()}")
        return self.rows[ids]

    def _ids(self, condition: str, batch: int) -> Tensor:
        try:
            ids = current().condition(condition, batch)
        except ValueError as error:
            raise DataError(f"{self.option}: {error}; known: {self._known()}") from error
        return ids[:1] if ids.stride(0) == 0 else ids  # expanded from one

    def _known(self) -> str:
        return ", ".join(" ".join(label) for label in self.labels)

    def _index(self, label: tuple[str, ...]) -> tuple[int, ...]:
        if len(label) != len(self.by):
            raise ConfigError(
                f"{self.option}.combinations: {' '.join(label)}: give one name for each of {' '.join(self.by)}"
            )
        for condition, names, name in zip(self.by, self.names, label, strict=True):
            if name not in names:
                raise ConfigError(
                    f"{self.option}.combinations: {condition} {name!r} is unknown; known: {' '.join(names)}"
                )
        return tuple(names.index(name) for names, name in zip(self.names, label, strict=True))

    def _check_distinct(self) -> None:
        for label in self.labels:
            if self.labels.count(label) > 1:
                raise ConfigError(f"{self.option}: {' '.join(label)} is listed twice; list it once")


def read_options(kind: type, option: str, values: Mapping[str, object]):
    """Build `kind(**given)`, a dataclass of options with `by`.

    Raises:
        ConfigError: An option is unknown, or `by` is missing.
    """
    if isinstance(values, Mapping) and not values.get("by"):
        raise ConfigError(f"{option}.by is missing; choose from: {' '.join(CONDITIONS)}")
    return read(kind, values, option)
