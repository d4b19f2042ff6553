"""Which tasks each utterance is decoded for: names from the data directory or the user, indices for the model.

The tables utt2lang, utt2tgtlang and utt2domain of the data directory name the tasks, and a name that the user gives
holds for all utterances in place of a table. Where there is no utt2tgtlang and no src_text, the target language is the
language, as in speech recognition. Language and target language are looked up each by itself, so a pair that training
has not seen is decoded like any other. A single recording or text has no tables: `completed` and `indices_of` are for
the names that it is given.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from espnet_diverse.attention.head_selection import HeadSelection
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import DataError
from espnet_diverse.training.condition_names import task_table

AXES = {
    "lang": ("language", "--language"),
    "tgtlang": ("target language", "--target_language"),
    "domain": ("domain", "--domain"),
}
"""What the axes of `scope.AXES` are called, and the option that names one for all utterances."""


@dataclass(frozen=True)
class KnownTasks:
    """What a model knows of tasks.

    Attributes:
        names: Axes that it needs, each with the names that it knows in the order of their indices.
        defaults: Name by axis for an utterance that has none of these; the `default_task` of head selection.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def known_tasks(model: nn.Module) -> KnownTasks:
    """What `model` knows of tasks; nothing, where it is a model class of ESPnet's own."""
    selections = [module for module in model.modules() if isinstance(module, HeadSelection)]
    defaults = {axis: name for each in selections for axis, name in each.options.default_task.items()}
    return KnownTasks(getattr(model, "tasks", {}), defaults)


def task_indices(
    known: KnownTasks, data_dir: Path, utterances: Iterable[str], given: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Task index of each utterance by axis.

    Args:
        known: What the model knows.
        data_dir: Data directory whose tables name the tasks.
        utterances: Utterances to be decoded.
        given: Names by axis that hold for all utterances.

    Raises:
        DataError: A given name is unknown, or an utterance has no name on an axis that the model knows, and the axis no
            default.
    """
    _warn(given, {source for axis in known.names for source in _sources(axis, data_dir)})
    indices: dict[str, dict[str, int]] = {utterance: {} for utterance in utterances}
    for axis, names in known.names.items():
        origin, named = _named(axis, data_dir, indices, given)
        default = None if origin == AXES[axis][1] else known.defaults.get(axis)
        defaulted = 0
        for utterance, tasks in indices.items():
            name = named.get(utterance)
            if name not in names:
                if default is None:
                    raise DataError(_refusal(axis, origin, utterance, name, names))
                name, defaulted = default, defaulted + 1
            tasks[axis] = names.index(name)
        if defaulted:
            what = f"{AXES[axis][0]} that the model knows; {default}, its default, is taken"
            logging.warning("%d of %d utterances have no %s", defaulted, len(indices), what)
    return indices


def completed(known: KnownTasks, given: Mapping[str, str], same_language: bool) -> dict[str, str]:
    """Name on each axis that the model knows, for one recording or text; an axis that nothing names is left out.

    Args:
        known: What the model knows.
        given: Names by axis.
        same_language: Whether the text is in the language of what it is made from, so that one of them names both.

    Returns:
        By axis the given name, that of the other language, the axis's default, or the only name that there is.

    Raises:
        DataError: A given name is unknown.
    """
    names = {}
    for axis, there in known.names.items():
        twin = {"lang": "tgtlang", "tgtlang": "lang"}.get(axis) if same_language else None
        name = given.get(axis) or given.get(twin) or known.defaults.get(axis) or (there[0] if len(there) == 1 else None)
        if name is None:
            continue
        if name not in there:
            raise DataError(_refusal(axis, AXES[axis][1], "", name, there))
        names[axis] = name
    return names


def indices_of(known: KnownTasks, names: Mapping[str, str]) -> dict[str, int]:
    """Task index by axis of `names`, which `completed` gave.

    Raises:
        DataError: The model knows an axis that nothing names.
    """
    for axis, there in known.names.items():
        if axis not in names:
            what, option = AXES[axis]
            raise DataError(f"the {what} is not known; give {option}; this model knows: {' '.join(there)}")
    return {axis: there.index(names[axis]) for axis, there in known.names.items()}


def warn_of_unused(known: KnownTasks, given: Mapping[str, str], same_language: bool) -> None:
    """Warn of each of the names by axis that no part of the model depends on; arguments as of `completed`."""
    used, twins = set(known.names), {"lang", "tgtlang"}
    if same_language and used & twins:
        used |= twins
    _warn(given, used)


def _warn(given: Mapping[str, str], used: set[str]) -> None:
    for axis, name in given.items():
        if axis not in used:
            what, option = AXES[axis]
            logging.warning("%s %s has no effect: no part of this model depends on the %s", option, name, what)


def _sources(axis: str, data_dir: Path) -> tuple[str, str]:
    """The axis itself, and that of the table that names it."""
    return axis, task_table(data_dir, axis).name.removeprefix("utt2")


def _named(
    axis: str, data_dir: Path, utterances: Iterable[str], given: Mapping[str, str]
) -> tuple[str | None, dict[str, str]]:
    """Where the names of an axis come from, None where there are none, and the name of each utterance."""
    for source in _sources(axis, data_dir):
        if source in given:
            return AXES[source][1], dict.fromkeys(utterances, given[source])
    table = task_table(data_dir, axis)
    return (str(table), read_table(table)) if table.exists() else (None, {})


def _refusal(axis: str, origin: str | None, utterance: str, name: str | None, names: Sequence[str]) -> str:
    what, option = AXES[axis]
    known = f"this model knows: {' '.join(names)}"
    if origin == option:
        return f"{option} {name}: unknown {what}; {known}"
    if name is not None:
        return f"{origin}: utterance {utterance!r} has the unknown {what} {name!r}; {known}"
    return (
        f"utterance {utterance!r} has no {what}; name it in utt2{axis} of the data directory, or give {option}; {known}"
    )
