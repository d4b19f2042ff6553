"""Checks of `best_model_criterion`, `early_stopping_criterion` and `val_scheduler_criterion`."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeGuard

from espnet_diverse.errors import ConfigError, TrainingError
from espnet_diverse.option_checks import hint
from espnet_diverse.runs.config import Config

log = logging.getLogger(__name__)

_OF_UPDATES = ("grad_norm", "clip", "optim_step_time")  # an update has these only if it is finite
_OF_DEFAULTS = ("loss", "acc")
_WITHOUT_ACCURACY = ("lm", "s2t_ctc")  # tasks whose models report none
_PARTS = "with PHASE train or valid, NAME the name of a statistic"


def check_forms(config: Config) -> None:
    """Check the criteria of a configuration, before training.

    Raises:
        ConfigError: A criterion is not a phase, a name and a mode, or all criteria of an option are switched off in the
            model by `report_NAME: false`; the message has its origin, its value and what is allowed.
    """
    criterion = f"[PHASE, NAME, MODE] {_PARTS} and MODE min or max"
    _check(config, "early_stopping_criterion", _is_criterion, f"{criterion}, such as [valid, loss, min]")
    _check(config, "val_scheduler_criterion", _is_statistic, f"[PHASE, NAME] {_PARTS}, such as [valid, loss]")
    several = f"a list of {criterion}, such as [[valid, acc, max]]"
    _check(config, "best_model_criterion", are_criteria, several)
    _check_reported(config, "best_model_criterion", config.get("best_model_criterion") or [])
    for key in ("early_stopping_criterion", "val_scheduler_criterion"):
        _check_reported(config, key, [config[key]] if key in config else [])


def are_criteria(value: object) -> bool:
    """Return whether `value` is a list of criteria: phase, name and mode of each."""
    return _is_list(value) and all(map(_is_criterion, value))


def preferred_metrics(config: Mapping) -> list[str]:
    """Criteria by which epochs are ranked and averages chosen by default; the first that exists is used.

    Args:
        config: Configuration of a run, or nothing but its `task`.

    Returns:
        Phases and names, such as valid.acc: first the task's own, if the run keeps epochs by it or names no criterion;
        then the other criteria of the run, those of validation first. Where encoder and decoder are frozen, as for a
        layer of CTC, it is valid.loss: the accuracy of the decoder does not change.
    """
    frozen = not config.get("use_adapter") and all(is_frozen(part, config) for part in ("encoder", "decoder"))
    default = "valid.loss" if frozen or config.get("task") in _WITHOUT_ACCURACY else "valid.acc"
    criteria = config.get("best_model_criterion")
    named = [f"{phase}.{name}" for phase, name, _ in criteria] if are_criteria(criteria) else []
    return sorted(named or [default], key=lambda metric: (metric != default, not metric.startswith("valid.")))


def is_frozen(part: str, config: Mapping) -> bool:
    """Return whether `freeze_param` and `unfreeze_param`, as training/freezing.py reads them, freeze all of a part.

    Args:
        part: Name of the part, such as "encoder" or "frontend.encoder".
        config: Configuration of a run.
    """
    values = (config.get(key) or () for key in ("freeze_param", "unfreeze_param"))
    names, but = ([value] if isinstance(value, str) else value for value in values)
    whole = any(_holds(name, part) or fnmatchcase(f"{part}.\0", name) for name in names)  # only a final * matches \0
    return whole and not any(_may_be_of(part, name) for name in but)


def _holds(name: str, part: str) -> bool:
    return f"{part}.".startswith(f"{name}.")


def _may_be_of(part: str, name: str) -> bool:
    """Return whether a name or a pattern may match parameters of a part of the model."""
    beginning = re.split(r"[*?\[]", name)[0]
    within = beginning.startswith(f"{part}.") or beginning != name and f"{part}.".startswith(beginning)
    return _holds(name, part) or within


def _check(config: Config, key: str, allowed: Callable[[object], bool], advice: str) -> None:
    if key in config and not allowed(config[key]):
        raise ConfigError(f"{config.origin(key)}: {key} is {config[key]!r:.100}; give {advice}")


def _check_reported(config: Config, key: str, criteria: Sequence[Sequence[str]]) -> None:
    """Check that not all criteria of an option are left out by ESPnet's model, as with `report_cer: false`."""
    model = config.get("model_conf")
    omitted = [name for _, name, *_ in criteria if isinstance(model, Mapping) and model.get(f"report_{name}") is False]
    if omitted and len(omitted) == len(criteria):
        reason = f"{key} is by {omitted[0]}, and the model reports none with report_{omitted[0]}: false"
        raise ConfigError(f"{config.origin(key)}: {reason}; set it to true in model_conf, or give another criterion")


def _is_criterion(value: object) -> bool:
    return _is_list(value) and len(value) == 3 and _is_statistic(value[:2]) and value[2] in ("min", "max")


def _is_statistic(value: object) -> bool:
    return _is_list(value) and len(value) == 2 and value[0] in ("train", "valid") and _is_name(value[1])


def _is_name(value: object) -> bool:
    """Return whether `value` may be the name of a statistic, and with it part of the name of a file."""
    return isinstance(value, str) and re.fullmatch(r"[^/\\\s]{1,100}", value) is not None and value.isprintable()


def _is_list(value: object) -> TypeGuard[Sequence]:
    return isinstance(value, list | tuple)


def check_criteria(stats: Mapping[str, Collection[str]], criteria: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Check that at least one of the criteria of each option is measured; a warning names the others.

    Args:
        stats: Names of the statistics of an epoch by phase ("train", "valid").
        criteria: Phase, name and perhaps mode of each criterion, by option. If no criterion of `best_model_criterion`
            is measured, no weights are averaged; ESPnet's defaults, loss and acc, may be missing if others are there.

    Raises:
        TrainingError: No criterion of an option is among the statistics.
    """
    known = [f"{phase}.{name}" for phase in sorted(stats, reverse=True) for name in stats[phase]]
    for option, option_criteria in criteria.items():
        named = {f"{criterion[0]}.{criterion[1]}": criterion[1] for criterion in option_criteria}
        missing = [metric for metric in named if metric not in known]
        if missing and len(missing) == len(named):
            raise TrainingError(f"{option}: an epoch has no {' '.join(missing)}; {hint(missing[0], known, 'an epoch')}")
        for metric in missing:
            if named[metric] not in _OF_DEFAULTS:
                log.warning("%s: an epoch has no %s; %s", option, metric, hint(metric, known, "an epoch"))


def expected_statistics(names: Iterable[str], registered: Iterable[str]) -> dict[str, Collection[str]]:
    """The statistics that an epoch will have, judged by its first update, for `check_criteria`.

    Models give the same names in training and in validation, with None for what they measure in only one of them.

    Args:
        names: Names of the statistics of a batch.
        registered: Names of further values recorded for an update, such as learning rates.
    """
    of_batch = [*names, "total_count"]
    return {"train": dict.fromkeys([*of_batch, *registered, *_OF_UPDATES]), "valid": [*of_batch, "epoch"]}
