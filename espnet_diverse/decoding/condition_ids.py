"""Which conditions each utterance is decoded for: names from the data directory or the user, indices for the model.

The tables utt2lang, utt2tgtlang and utt2domain of the data directory name the conditions, and a name that the user
gives holds for all utterances in place of a table. Where there is no utt2tgtlang and no src_text, the target language
is the language, as in speech recognition. Language and target language are looked up each by itself, so a pair that
training has not seen is decoded like any other. A single recording or text has no tables: `completed` and `indices_of`
are for the names that it is given.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from espnet_diverse.attention.head_selection import HeadSelection
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import DataError
from espnet_diverse.training.condition_names import condition_table


@dataclass(frozen=True)
class KnownConditions:
    """What a model knows of conditions.

    Attributes:
        names: Axes that it needs, each with the names that it knows in the order of their indices.
        defaults: Name by condition for an utterance that has none of these; the `default_condition` of head selection.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def known_conditions(model: nn.Module) -> KnownConditions:
    """What `model` knows of conditions; nothing, where it is a model class of ESPnet's own."""
    selections = [module for module in model.modules() if isinstance(module, HeadSelection)]
    defaults = {condition: name for each in selections for condition, name in each.options.default_condition.items()}
    return KnownConditions(getattr(model, "conditions", {}), defaults)


def condition_indices(
    known: KnownConditions, data_dir: Path, utterances: Iterable[str], given: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Condition index of each utterance by condition.

    Args:
        known: What the model knows.
        data_dir: Data directory whose tables name the conditions.
        utterances: Utterances to be decoded.
        given: Names by condition that hold for all utterances.

    Raises:
        DataError: A given name is unknown, or an utterance has no name on a condition that the model knows, and the
            condition no default.
    """
    _warn(given, {source for condition in known.names for source in _sources(condition, data_dir)})
    indices: dict[str, dict[str, int]] = {utterance: {} for utterance in utterances}
    for condition, names in known.names.items():
        origin, named = _named(condition, data_dir, indices, given)
        default = None if origin == CONDITIONS[condition].option else known.defaults.get(condition)
        defaulted = 0
        for utterance, conditions in indices.items():
            name = named.get(utterance)
            if name not in names:
                if default is None:
                    raise DataError(_refusal(condition, origin, utterance, name, names))
                name, defaulted = default, defaulted + 1
            conditions[condition] = names.index(name)
        if defaulted:
            what = f"{CONDITIONS[condition].label} that the model knows; {default}, its default, is taken"
            logging.warning("%d of %d utterances have no %s", defaulted, len(indices), what)
    return indices


def completed(known: KnownConditions, given: Mapping[str, str], same_language: bool) -> dict[str, str]:
    """Name on each condition that the model knows, for one recording or text; a condition that nothing names is left
    out.

    Args:
        known: What the model knows.
        given: Names by condition.
        same_language: Whether the text is in the language of what it is made from, so that one of them names both.

    Returns:
        By condition the given name, that of the other language, the condition's default, or the only name that there
        is.

    Raises:
        DataError: A given name is unknown.
    """
    names = {}
    for condition, there in known.names.items():
        twin = {"lang": "tgtlang", "tgtlang": "lang"}.get(condition) if same_language else None
        name = (
            given.get(condition)
            or given.get(twin)
            or known.defaults.get(condition)
            or (there[0] if len(there) == 1 else None)
        )
        if name is None:
            continue
        if name not in there:
            raise DataError(_refusal(condition, CONDITIONS[condition].option, "", name, there))
        names[condition] = name
    return names


def indices_of(known: KnownConditions, names: Mapping[str, str]) -> dict[str, int]:
    """Index by condition of `names`, which `completed` gave.

    Raises:
        DataError: The model knows a condition that nothing names.
    """
    for condition, there in known.names.items():
        if condition not in names:
            what, option = CONDITIONS[condition].label, CONDITIONS[condition].option
            raise DataError(f"the {what} is not known; give {option}; this model knows: {' '.join(there)}")
    return {condition: there.index(names[condition]) for condition, there in known.names.items()}


def warn_of_unused(known: KnownConditions, given: Mapping[str, str], same_language: bool) -> None:
    """Warn of each of the names by condition that no part of the model depends on; arguments as of `completed`."""
    used, twins = set(known.names), {"lang", "tgtlang"}
    if same_language and used & twins:
        used |= twins
    _warn(given, used)


def _warn(given: Mapping[str, str], used: set[str]) -> None:
    for condition, name in given.items():
        if condition not in used:
            what, option = CONDITIONS[condition].label, CONDITIONS[condition].option
            logging.warning("%s %s has no effect: no part of this model depends on the %s", option, name, what)


def _sources(condition: str, data_dir: Path) -> tuple[str, str]:
    """The condition itself, and that of the table that names it."""
    return condition, condition_table(data_dir, condition).name.removeprefix("utt2")


def _named(
    condition: str, data_dir: Path, utterances: Iterable[str], given: Mapping[str, str]
) -> tuple[str | None, dict[str, str]]:
    """Where the names of a condition come from, None where there are none, and the name of each utterance."""
    for source in _sources(condition, data_dir):
        if source in given:
            return CONDITIONS[source].option, dict.fromkeys(utterances, given[source])
    table = condition_table(data_dir, condition)
    return (str(table), read_table(table)) if table.exists() else (None, {})


def _refusal(condition: str, origin: str | None, utterance: str, name: str | None, names: Sequence[str]) -> str:
    what, option = CONDITIONS[condition].label, CONDITIONS[condition].option
    known = f"this model knows: {' '.join(names)}"
    if origin == option:
        return f"{option} {name}: unknown {what}; {known}"
    if name is not None:
        return f"{origin}: utterance {utterance!r} has the unknown {what} {name!r}; {known}"
    return (
        f"utterance {utterance!r} has no {what}; name it in utt2{condition} of the data directory, "
        f"or give {option}; {known}"
    )
