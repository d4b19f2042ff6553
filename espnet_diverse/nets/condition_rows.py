"""Lookup of the row of a parameter that each sample uses: one row for each language, domain, or combination of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import product

import torch
from torch import Tensor, nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import check_names
from espnet_diverse.scope import current


class ConditionRows(nn.Module):
    """Maps the conditions of the open scope to rows; it has no parameters, and nothing of it is saved.

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
        self.by = [by] if isinstance(by, str) else list(by)
        self._check_conditions(conditions)
        self.names = [list(conditions[condition]) for condition in self.by]
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

    def _check_conditions(self, conditions: Mapping[str, Sequence[str]]) -> None:
        for condition in self.by:
            if condition not in CONDITIONS:
                raise ConfigError(f"{self.option}.by: {condition!r} is unknown; known: {' '.join(CONDITIONS)}")
            if not conditions or not conditions.get(condition):
                raise ConfigError(
                    f"{self.option}.conditions has no names for {condition}; "
                    f"training fills them in from utt2{condition}, or list them"
                )

    def _check_distinct(self) -> None:
        lists: tuple[list, ...] = (*self.names, self.labels)
        for listed in lists:
            twice = next((entry for entry in listed if listed.count(entry) > 1), None)
            if twice is not None:
                shown = twice if isinstance(twice, str) else " ".join(twice)
                raise ConfigError(f"{self.option}: {shown} is listed twice; list it once")


def read_options(kind: type, option: str, given: Mapping[str, object]):
    """`kind(**given)` for a dataclass of options with `by`.

    Raises:
        ConfigError: An option is unknown, or `by` is missing.
    """
    check_names(given, [field.name for field in fields(kind)], option)
    if not given.get("by"):
        raise ConfigError(f"{option}.by is missing; choose from: {' '.join(CONDITIONS)}")
    return kind(**given)
