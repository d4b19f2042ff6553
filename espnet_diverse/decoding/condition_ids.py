"""Conditions of each utterance for decoding: values from the data directory or the user, as indices for the model.

The tables utt2lang, utt2tgtlang and utt2domain of the data directory give the values; a value from the user replaces
the table for all utterances. Without utt2tgtlang and src_text the target language is the language, as in speech
recognition. Language and target language are looked up separately, so a pair that was not in the training data can be
decoded. A single recording or text has no tables; its values are handled by `completed` and `indices_of`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from torch import nn

from espnet_diverse.attention.selection.head_selection import HeadSelection
from espnet_diverse.conditions import CONDITIONS, known_value
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.condition_names import condition_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownConditions:
    """The conditions that a model depends on.

    Attributes:
        names: Known values of each condition, in the order of their indices.
        defaults: Value of a condition for an utterance without a known value; `default_condition` of head selection.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def known_conditions(model: nn.Module) -> KnownConditions:
    """The conditions that `model` depends on; none for ESPnet's own model classes."""
    if isinstance(conditions := getattr(model, "conditions", {}), KnownConditions):  # of a prompt
        return conditions
    selections = [module for module in model.modules() if isinstance(module, HeadSelection)]
    defaults = {
        condition: name for selection in selections for condition, name in selection.options.default_condition.items()
    }
    return KnownConditions(conditions, defaults)


class _Indices(Mapping[str, dict[str, int]]):
    """Index by condition of each utterance, looked up on access."""

    def __init__(self, utterances: Collection[str]):
        self.utterances = utterances
        self.lookups: dict[str, Callable[[str], int]] = {}

    def __len__(self) -> int:
        return len(self.utterances)

    def __iter__(self) -> Iterator[str]:
        return iter(self.utterances)

    def __getitem__(self, utterance: str) -> dict[str, int]:
        return {condition: lookup(utterance) for condition, lookup in self.lookups.items()}


def condition_indices(
    known: KnownConditions, data_dir: Path, utterances: Collection[str], values: Mapping[str, str]
) -> Mapping[str, dict[str, int]]:
    """Look up the condition indices of utterances.

    Args:
        known: The conditions that the model depends on.
        data_dir: Data directory with the tables of the conditions.
        utterances: Ids of the utterances.
        values: Values by condition that hold for all utterances.

    Returns:
        Index by condition for each utterance.

    Raises:
        ConfigError: A given condition is unknown.
        DataError: A given value is unknown, or an utterance has no known value of a condition without a default.
    """
    _warn(known, values, {source for condition in known.names for source in _sources(condition, data_dir)})
    indices = _Indices(utterances)
    for condition, names in known.names.items():
        if source := next(filter(values.get, _sources(condition, data_dir)), None):
            index = _index(condition, source, values[source], names)
            indices.lookups[condition] = lambda _, index=index: index
            continue
        table, default = condition_table(data_dir, condition), known.defaults.get(condition)
        named = pack_table(table).get if table.exists() else {}.get
        numbers = {name: index for index, name in enumerate(names)}
        if unknown := [utterance for utterance in utterances if named(utterance) not in numbers]:
            if default is None:
                raise DataError(_refusal(condition, table, unknown[0], named(unknown[0]), names))
            reason = f"{CONDITIONS[condition].label} that the model knows; the default {default} is used"
            log.warning("%d of %d utterances have no %s", len(unknown), len(indices), reason)
        indices.lookups[condition] = partial(_number, named, numbers, default)
    return indices


def _number(named: Callable[[str], str | None], numbers: Mapping[str, int], default: str | None, utterance: str) -> int:
    """Index of the value of an utterance, or of the default where the value is unknown; the caller has checked it."""
    name = named(utterance)
    return numbers[default if name not in numbers else name]


def _index(condition: str, source: str, name: str, names: Sequence[str]) -> int:
    """Index among `names` of the value `name` of a condition, which the option of the condition `source` gave."""
    known = known_value(condition, name, names)
    if known is None:
        reason = f"unknown {CONDITIONS[condition].label}; this model knows: {' '.join(names)}"
        raise DataError(f"{CONDITIONS[source].option} {name}: {reason}")
    return names.index(known)


def completed(known: KnownConditions, given: Mapping[str, str], same_language: bool) -> dict[str, str]:
    """Complete the conditions of one recording or text.

    Args:
        known: The conditions that the model depends on.
        given: Values by condition.
        same_language: Whether input and output text have the same language, so that one value gives both.

    Returns:
        Value by condition: the given value, the value of the other language, the default, or the only known value.
        Conditions with none of these are left out.

    Raises:
        DataError: A given value is unknown.
    """
    names = {}
    for condition, values in known.names.items():
        twin = {"lang": "tgtlang", "tgtlang": "lang"}.get(condition) if same_language else None
        source = twin if given.get(twin) and not given.get(condition) else condition
        if name := given.get(source) or known.defaults.get(condition) or (values[0] if len(values) == 1 else None):
            names[condition] = values[_index(condition, source, name, values)]
    return names


def indices_of(known: KnownConditions, names: Mapping[str, str]) -> dict[str, int]:
    """Index by condition of `names`, which `completed` returned.

    Raises:
        DataError: A condition that the model depends on is missing.
    """
    for condition, values in known.names.items():
        if condition not in names:
            label, option = CONDITIONS[condition].label, CONDITIONS[condition].option
            raise DataError(f"the {label} is missing; give {option}; this model knows: {' '.join(values)}")
    return {condition: values.index(names[condition]) for condition, values in known.names.items()}


def check_conditions(names: Iterable[str]) -> None:
    """Refuse names that are not conditions, such as the argument name `language` instead of `lang`.

    Raises:
        ConfigError: A name is unknown.
    """
    if unknown := [name for name in names if name not in CONDITIONS]:
        raise ConfigError(f"condition {unknown[0]!r} is unknown; known: {' '.join(CONDITIONS)}")


def warn_of_unused(
    known: KnownConditions, values: Mapping[str, str], same_language: bool, warned: set[str] | None = None
) -> None:
    """Warn about given values that have no effect.

    Args:
        known, values, same_language: As for `completed`.
        warned: Conditions that earlier calls warned about, which are not repeated; this call adds its own.

    Raises:
        ConfigError: A given condition is unknown.
    """
    twins = {"lang", "tgtlang"}
    _warn(known, values, twins if same_language and twins & known.names.keys() else set(), warned)


def _warn(known: KnownConditions, values: Mapping[str, str], sources: set[str], warned: set[str] | None = None) -> None:
    """Warn about values without effect; conditions in `sources` can supply values of the model's conditions."""
    warned = set() if warned is None else warned
    check_conditions(values)
    used = set(known.names)
    if "lang" not in values or values.get("tgtlang", values["lang"]) == values["lang"]:
        used |= sources
    for condition, name in values.items():
        if condition not in used | warned:
            warned.add(condition)
            label, option = CONDITIONS[condition].label, CONDITIONS[condition].option
            log.warning("%s %s has no effect: no part of this model depends on the %s", option, name, label)


def _sources(condition: str, data_dir: Path) -> tuple[str, str]:
    """The condition itself, and the condition whose table gives its values."""
    return condition, condition_table(data_dir, condition).name.removeprefix("utt2")


def _refusal(condition: str, table: Path, utterance: str, name: str | None, names: Sequence[str]) -> str:
    """Message for an utterance of which a table has no known value of a condition."""
    label, option = CONDITIONS[condition].label, CONDITIONS[condition].option
    known = f"this model knows: {' '.join(names)}"
    if name is not None:
        return f"{table}: utterance {utterance!r} has the unknown {label} {name!r}; {known}"
    return (
        f"utterance {utterance!r} has no {label}; add it to utt2{condition} of the data directory, "
        f"or give {option}; {known}"
    )
