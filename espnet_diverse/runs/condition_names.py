"""Values of conditions: the languages and domains of the data, and the parts of a model that depend on them.

A part of a model that depends on conditions has the option `by`, a key of `conditions.CONDITIONS` or a list of them:

    encoder_conf: {attention: {selection: {strategy: group, by: [lang]}}}
    decoder_conf: {start_tag: {by: tgtlang}}
    adapter_conf: {by: lang}

Training adds the option `conditions`, the values of each of these conditions in the order of their indices, to that
part and to `model_conf`. config.yaml thus has all information that decoding needs to turn values into indices.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from espnet_diverse.attention.selection.selection_options import SelectionOptions, checked_values, conditions_of
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import must_be
from espnet_diverse.runs.config import Config, located

Keys = tuple[str, ...]
_NETS = ("encoder_conf", "decoder_conf", "lm_conf", "classifier_conf")  # sections of the nets that can have such parts
_ADAPTER = "adapter_conf"  # depends on conditions directly, if `use_adapter` is set


def condition_table(data_dir: Path, condition: str) -> Path:
    """The table with the value of a condition for each utterance; it need not exist.

    Without utt2tgtlang the target language is the language, unless `text` is a translation (there is a src_text).
    """
    table = data_dir / f"utt2{condition}"
    transcribed = condition == "tgtlang" and not table.exists() and not (data_dir / "src_text").exists()
    return data_dir / "utt2lang" if transcribed else table


def fill_in(config: Config, train_dir: Path, valid_dir: Path) -> list[str]:
    """Fill in the option `conditions` of `model_conf` and of the parts of the model that depend on conditions.

    The values come from the training data, sorted, or from a list in the configuration, in its order.

    Returns:
        The conditions that the model depends on, sorted.

    Raises:
        ConfigError: A condition is unknown, two lists for one condition differ, a listed value has no training data, or
            the part belongs to a classifier, to which `classify` gives no conditions.
        DataError: A data directory has no table for a condition, or an utterance has a value that is not listed or not
            in the training data.
    """
    parts = {}
    for keys, by in _parts(config):
        with located(config, *keys):
            if config.get("classifier") and keys != ("classifier_conf",):  # whose own `by` names its labels
                raise ConfigError("a classifier has no parts by condition, as `classify` gives it none; leave by out")
            parts[keys] = conditions_of(by)
    names: dict[str, list[str]] = {}
    for condition in CONDITIONS:
        asking = [keys for keys, conditions in parts.items() if condition in conditions]
        if asking:
            names[condition] = _names(config, condition, asking, train_dir)
            for data_dir in (train_dir, valid_dir):
                _check_table(data_dir, condition, names[condition], _shown(config, asking[0]))
    for keys, conditions in parts.items():
        value: dict = {"by": conditions, "conditions": {condition: names[condition] for condition in conditions}}
        for key in reversed(keys):
            value = {key: value}
        config.add(value, {})
    if names:
        config.add({"model_conf": {"conditions": names}}, {})
    return sorted(names)


def fill_in_without_data(config: Config) -> None:
    """Fill in the option `conditions` where there is no data: values that the configuration names, or else "?".

    Raises:
        ConfigError: A condition is unknown.
    """
    for keys, by in list(_parts(config)):
        part = config
        for key in keys:
            part = part[key]
        with located(config, *keys):
            conditions = conditions_of(by)
            named = [name for family in part.get("families") or () for name in family]
            default = part.get("default_condition") or {}
            listed = default if isinstance(default, Mapping) else {}  # anything else is refused where it is read
            names = {condition: named or [listed.get(condition, "?")] for condition in conditions} | _values(part)
        value: dict = {"by": conditions, "conditions": names}
        for key in reversed(keys):
            value = {key: value}
        config.add(value, {})


def names_of_conditions(config: Mapping) -> Mapping[str, Sequence[str]]:
    """Values of each condition that the model of a configuration depends on, in the order of their indices."""
    return (config.get("model_conf") or {}).get("conditions") or {}


def has_parameters_by_condition(config: Mapping) -> bool:
    """Return whether a part of the nets with parameters depends on a condition; a prompt has none."""
    return any(keys[-1] != "prompt" for keys, _ in _parts(config))


class ConditionIndices:
    """ESPnet's preprocessor of utterances, which also turns values of conditions into indices.

    Args:
        preprocess: ESPnet's preprocessor; None if it is switched off.
        names: Values of each condition in the order of their indices.
    """

    def __init__(self, preprocess, names: Mapping[str, list[str]]):
        self.preprocess, self.names = preprocess, names

    def __call__(self, utterance: str, data: dict) -> dict[str, np.ndarray]:
        """Data of one utterance by name; the value of each condition becomes an index, (1,) int64.

        Raises:
            DataError: The value is unknown.
        """
        values = {condition: data.pop(condition) for condition in self.names if condition in data}
        data = data if self.preprocess is None else self.preprocess(utterance, data)
        for condition, name in values.items():
            if name not in self.names[condition]:
                raise DataError(f"utterance {utterance}: {_unknown(condition, name, self.names[condition])}")
            data[condition] = np.array([self.names[condition].index(name)], dtype=np.int64)
        return data


def _parts(config: Mapping, keys: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Path of keys and option `by` of every part of the nets that depends on conditions."""
    for key, value in config.items():
        path = (*keys, key)
        sections = (*_NETS, _ADAPTER) if keys or config.get("use_adapter") else _NETS
        if not isinstance(value, dict) or path[0] not in sections:
            continue
        if key == "selection":  # the only part that has a default `by`, and that can be off
            if value.get("strategy", "none") != "none":
                yield path, value.get("by", list(SelectionOptions.by))
        elif value.get("by") is not None:
            yield path, value["by"]
        yield from _parts(value, path)


def _names(config: Config, condition: str, asking: list[Keys], train_dir: Path) -> list[str]:
    """Values of a condition: the configuration's list, or all values of the training data, sorted."""
    table = condition_table(train_dir, condition)
    if not table.is_file():
        raise DataError(_missing(train_dir, condition, _shown(config, asking[0])))
    trained = sorted(set(pack_table(table).values()))
    chosen = trained
    for keys in [("model_conf",), *asking]:
        listed = _listed(config, keys, condition)
        if listed is None:
            continue
        untrained = [name for name in listed if name not in trained]
        if untrained:
            has = f"{table} has: {' '.join(trained)}"
            raise ConfigError(
                f"{_shown(config, keys)}: conditions lists {untrained[0]!r}, which has no training data; {has}"
            )
        if chosen is not trained and listed != chosen:
            differ = f"conditions of {condition} are {listed} here and {chosen} elsewhere"
            raise ConfigError(f"{_shown(config, keys)}: {differ}; list the same values")
        chosen = listed
    return chosen


def _listed(config: Config, keys: Keys, condition: str) -> list[str] | None:
    part = config
    for key in keys:
        part = part.get(key) or {}
    with located(config, *keys):
        values = _values(part)
        return checked_values(condition, values)[condition] if values.get(condition) else None


def _values(part: Mapping) -> dict:
    """Option `conditions` of a part of the configuration."""
    conditions = part.get("conditions") or {}
    if not isinstance(conditions, dict):
        raise must_be("conditions", "a mapping, such as {lang: [de, en]}", conditions)
    return conditions


def _check_table(data_dir: Path, condition: str, names: list[str], where: str) -> None:
    table = condition_table(data_dir, condition)
    if not table.is_file():
        raise DataError(_missing(data_dir, condition, where))
    for utterance, name in pack_table(table).items():
        if name not in names:
            raise DataError(f"{table}: {utterance}: {_unknown(condition, name, names)}")


def _missing(data_dir: Path, condition: str, where: str) -> str:
    return f"{where}: depends on {condition}, but {data_dir} has no table utt2{condition}; add it, or change `by`"


def _unknown(condition: str, name: str, names: list[str]) -> str:
    return f"{condition} {name!r} is unknown; known: {' '.join(names)}"


def _shown(config: Config, keys: Keys) -> str:
    """A part of the configuration as messages name it: its file and line, and its path of keys."""
    return f"{config.origin(*keys)}: {'.'.join(keys)}"
