"""Names of tasks: which languages and domains the data has, and which parts of a model differ by them.

A part of a model that differs by task says so by `by`, an axis of `scope.AXES` or a list of axes:

    encoder_conf: {attention: {selection: {strategy: group, by: [lang]}}}
    decoder_conf: {start_tag: {by: tgtlang}}

Training fills in `tasks`, the names of each of these axes in the order of their indices, in that part and in
`model_conf`, by which the model turns names into indices. So config.yaml has all that decoding needs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from espnet_diverse.attention.selection_options import SelectionOptions
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scope import AXES
from espnet_diverse.training.config import Config

Keys = tuple[str, ...]


def task_table(data_dir: Path, axis: str) -> Path:
    """The table that names the task of each utterance on an axis; it need not exist.

    Without utt2tgtlang the target language is the language, unless `text` is a translation (there is a src_text).
    """
    table = data_dir / f"utt2{axis}"
    recognised = axis == "tgtlang" and not table.exists() and not (data_dir / "src_text").exists()
    return data_dir / "utt2lang" if recognised else table


def axes_of(by: object, where: str) -> list[str]:
    """The axes that a `by` of the configuration names.

    Args:
        by: An axis or a list of axes.
        where: What the error begins with.

    Raises:
        ConfigError: An axis is unknown.
    """
    axes = [by] if isinstance(by, str) else by
    if not isinstance(axes, list) or not axes or not set(axes) <= set(AXES):
        raise ConfigError(f"{where}: by {by!r} is not allowed; give one or a list of {' '.join(AXES)}")
    return axes


def fill_in(config: Config, train_dir: Path, valid_dir: Path) -> list[str]:
    """Fill in `tasks` where `config` has parts that differ by task; return the axes that the model needs, sorted.

    Names are those of the training data, sorted, unless the configuration lists them, in its order.

    Raises:
        ConfigError: An axis is unknown, lists of one axis differ, or a listed name has no training data.
        DataError: A data directory has no table for an axis, or an utterance a name that is not listed or not trained.
    """
    parts = {keys: axes_of(by, _shown(config, keys)) for keys, by in _parts(config)}
    names: dict[str, list[str]] = {}
    for axis in AXES:
        asking = [keys for keys, axes in parts.items() if axis in axes]
        if asking:
            names[axis] = _names(config, axis, asking, train_dir)
            for data_dir in (train_dir, valid_dir):
                _check_table(data_dir, axis, names[axis], _shown(config, asking[0]))
    for keys, axes in parts.items():
        value: dict = {"by": axes, "tasks": {axis: names[axis] for axis in axes}}
        for key in reversed(keys):
            value = {key: value}
        config.add(value, {})
    if names:
        config.add({"model_conf": {"tasks": names}}, {})
    return sorted(names)


class TaskIndices:
    """ESPnet's preprocessor of an utterance, which also turns names of tasks into indices.

    Args:
        preprocess: ESPnet's own; None where it is switched off.
        names: Names of each axis in the order of their indices.
    """

    def __init__(self, preprocess, names: Mapping[str, list[str]]):
        self.preprocess, self.names = preprocess, names

    def __call__(self, utterance: str, data: dict) -> dict[str, np.ndarray]:
        """Data of one utterance by name; the name of its task on an axis becomes an index, (1,) int64.

        Raises:
            DataError: The name is unknown.
        """
        given = {axis: data.pop(axis) for axis in self.names if axis in data}
        data = data if self.preprocess is None else self.preprocess(utterance, data)
        for axis, name in given.items():
            if name not in self.names[axis]:
                raise DataError(f"utterance {utterance}: {_unknown(axis, name, self.names[axis])}")
            data[axis] = np.array([self.names[axis].index(name)], dtype=np.int64)
        return data


def _parts(config: Mapping, keys: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Path of keys and `by` of every part of the nets that differs by task."""
    for key, value in config.items():
        inside = (*keys, key)
        if not isinstance(value, dict) or inside[0] not in ("encoder_conf", "decoder_conf"):
            continue
        if key == "selection":  # the only part with a default, and with a null setting
            if value.get("strategy", "none") != "none":
                yield inside, value.get("by", list(SelectionOptions.by))
        elif value.get("by") is not None:
            yield inside, value["by"]
        yield from _parts(value, inside)


def _names(config: Config, axis: str, asking: list[Keys], train_dir: Path) -> list[str]:
    """Names of an axis: as listed by the user, all of them trained, or all of the training data, sorted."""
    table = task_table(train_dir, axis)
    if not table.is_file():
        raise DataError(_missing(train_dir, axis, _shown(config, asking[0])))
    trained = sorted(set(read_table(table).values()))
    chosen = trained
    for keys in [("model_conf",), *asking]:
        listed = _listed(config, keys, axis)
        if listed is None:
            continue
        strangers = [name for name in listed if name not in trained]
        if strangers:
            has = f"{table} has: {' '.join(trained)}"
            raise ConfigError(
                f"{_shown(config, keys)}: tasks lists {strangers[0]!r}, which has no training data; {has}"
            )
        if chosen is not trained and listed != chosen:
            raise ConfigError(
                f"{_shown(config, keys)}: tasks of {axis} are {listed} here and {chosen} elsewhere; list one"
            )
        chosen = listed
    return chosen


def _listed(config: Config, keys: Keys, axis: str) -> list[str] | None:
    part = config
    for key in keys:
        part = part.get(key) or {}
    listed = (part.get("tasks") or {}).get(axis)
    if listed is None:
        return None
    if (
        not isinstance(listed, list)
        or len(set(listed)) < len(listed)
        or not all(isinstance(name, str) for name in listed)
    ):
        raise ConfigError(f"{_shown(config, keys)}: tasks of {axis} are {listed!r}; give a list of different names")
    return list(listed)


def _check_table(data_dir: Path, axis: str, names: list[str], where: str) -> None:
    table = task_table(data_dir, axis)
    if not table.is_file():
        raise DataError(_missing(data_dir, axis, where))
    for utterance, name in read_table(table).items():
        if name not in names:
            raise DataError(f"{table}: {utterance}: {_unknown(axis, name, names)}")


def _missing(data_dir: Path, axis: str, where: str) -> str:
    return f"{where}: goes by {axis}, and {data_dir} has no table utt2{axis}; add it, or change `by`"


def _unknown(axis: str, name: str, names: list[str]) -> str:
    return f"{axis} {name!r} is not among those of the training data; known: {' '.join(names)}"


def _shown(config: Config, keys: Keys) -> str:
    """A part of the configuration as errors name it: where it comes from, and its path of keys."""
    return f"{config.origin(*keys)}: {'.'.join(keys)}"
