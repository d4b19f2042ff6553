"""Checks for numbers in a configuration with which training could not begin, or would change nothing."""

import math
from collections.abc import Callable, Mapping

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import Config

Check = tuple[Callable[[float], bool], str]

_POSITIVE: Check = (lambda x: 0 < x < math.inf, "give a finite number above 0")
_NOT_NEGATIVE: Check = (lambda x: 0 <= x < math.inf, "give a finite number of at least 0")
_SHARE: Check = (lambda x: 0 <= x < 1, "give a number from 0 to below 1")
_COUNT: Check = (lambda x: isinstance(x, int) and x >= 1, "give a whole number of at least 1, such as 1000")
_NUMBER: Check = (lambda x: isinstance(x, int) and x >= 0, "give a whole number of at least 0, such as 1000")

_CHECKS: dict[str, Check] = {
    "max_epoch": _COUNT,
    "accum_grad": _COUNT,
    "batch_size": _COUNT,
    "valid_batch_size": _COUNT,
    "batch_bins": _COUNT,
    "valid_batch_bins": _COUNT,
    "num_iters_per_epoch": _COUNT,
    "patience": _NUMBER,
    "keep_nbest_models": _COUNT,
    "log_interval": _COUNT,
    "save_interval_steps": _NUMBER,
    "num_workers": _NUMBER,
    "seed": _NUMBER,
    "grad_clip": _POSITIVE,
    "grad_clip_type": _POSITIVE,
}
_OF_OPTIMIZER: dict[str, Check] = {
    "lr": _POSITIVE,
    "weight_decay": _SHARE,
    "eps": _NOT_NEGATIVE,
    "momentum": _SHARE,
    "betas": _SHARE,
}
_OF_SCHEDULER: dict[str, Check] = {"warmup_steps": _COUNT, "gamma": _POSITIVE, "lr_factor": _POSITIVE}
_INFINITE = ("grad_clip_type", "grad_clip")  # inf: the largest gradient, or no clipping
_OPTIONAL = ("patience", "num_iters_per_epoch", "valid_batch_size", "valid_batch_bins")
_NONE = ("none", "null", "nil")  # words that ESPnet reads as no value of such keys, as in its recipes


def check_numbers(config: Config) -> None:
    """Check numbers of the trainer, its optimizers and schedulers; a number that is not set has ESPnet's default.

    Raises:
        ConfigError: One is not a number, not finite, or too small; the message has its origin, value and what is
            allowed.
    """
    _check(config, config, _CHECKS)
    for suffix in ("", "2", "3"):
        _check(config, config.get(f"optim{suffix}_conf"), _OF_OPTIMIZER, f"optim{suffix}_conf")
        _check(config, config.get(f"scheduler{suffix}_conf"), _OF_SCHEDULER, f"scheduler{suffix}_conf")


def _check(config: Config, section: object, checks: Mapping[str, Check], *keys: str) -> None:
    for name, (allowed, advice) in checks.items() if isinstance(section, Mapping) else ():
        values = section.get(name)
        for value in values if isinstance(values, list | tuple) else [values]:
            if value is None or (name in _INFINITE and value == math.inf):
                continue
            if name in _OPTIONAL and isinstance(value, str) and value.strip().lower() in _NONE:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not allowed(value):
                origin = config.origin(*keys, name)
                raise ConfigError(f"{origin}: {'.'.join((*keys, name))} is {value!r:.100}; {advice}")
