"""Which tasks each utterance is decoded for: names from the data directory or the user, indices for the model.

The tables utt2lang, utt2tgtlang and utt2domain of the data directory name the tasks, and a name that the user gives
holds for all utterances in place of a table. Where there is no utt2tgtlang and no src_text, the target language is the
language, as in speech recognition. Language and target language are looked up each by itself, so a pair that training
has not seen is decoded like any other.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from espnet_diverse.attention.head_selection import HeadSelection
from espnet_diverse.corpora.tables import read_table
from espnet_diverse.errors import DataError
from espnet_diverse.training.task_names import task_table

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
    _warn_of_unused(known.names, data_dir, given)
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


def _warn_of_unused(known: Mapping[str, Sequence[str]], data_dir: Path, given: Mapping[str, str]) -> None:
    used = {source for axis in known for source in _sources(axis, data_dir)}
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
