"""Checks for numbers in a configuration with which training could not begin, or would change nothing."""

import math
from collections.abc import Mapping

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import OptionError, Rule
from espnet_diverse.runs.config import NONE, Config

_POSITIVE = Rule(float, above=0)
_LIMIT = Rule(float, above=0, most=math.inf)  # inf: the largest gradient, or no clipping
_NOT_NEGATIVE = Rule(float, least=0)
_SHARE = Rule(float, least=0, below=1)
_RATE = Rule(float, least=0, most=1)
_COUNT = Rule(int, least=1)
_NUMBER = Rule(int, least=0)

_CHECKS: dict[str, Rule] = {
    "max_epoch": _COUNT,
    "accum_grad": _COUNT,
    "batch_size": _COUNT,
    "valid_batch_size": _COUNT,
    "batch_bins": _COUNT,
    "valid_batch_bins": _COUNT,
    "num_iters_per_epoch": _COUNT,
    "patience": _NUMBER,
    "keep_nbest_models": _COUNT,
    "nbest_averaging_interval": _NUMBER,
    "log_interval": _COUNT,
    "save_interval_steps": _NUMBER,
    "num_workers": _NUMBER,
    "seed": Rule(int, least=0, most=2**32 - 1 - 10**6),  # the loop adds the number of the epoch
    "grad_clip": _LIMIT,
    "grad_clip_type": _LIMIT,
}
_OF_NET: dict[str, Rule] = {
    **dict.fromkeys(("output_size", "attention_heads", "num_blocks", "linear_units"), _COUNT),
    **{f"{of}dropout_rate": _RATE for of in ("", "positional_", "attention_", "self_attention_", "src_attention_")},
}
_NETS = ("encoder_conf", "decoder_conf")
_SECTIONS: dict[str, dict[str, Rule]] = {
    "optim_conf": {"lr": _POSITIVE, "weight_decay": _SHARE, "eps": _NOT_NEGATIVE, "momentum": _SHARE, "betas": _SHARE},
    "scheduler_conf": {"warmup_steps": _COUNT, "gamma": _POSITIVE, "lr_factor": _POSITIVE},
    "model_conf": {"ctc_weight": _RATE, "lsm_weight": _SHARE},
    **dict.fromkeys(_NETS, _OF_NET),
}
_OPTIONAL = ("patience", "num_iters_per_epoch", "valid_batch_size", "valid_batch_bins")
_UNSET = (*_OPTIONAL, "log_interval")  # the keys of the trainer that may be null


def check_numbers(config: Config) -> None:
    """Check numbers of the trainer, its optimizers and schedulers, and of ESPnet's models and nets, whose constructors
    take nearly any; a number that is not set has ESPnet's default.

    Raises:
        ConfigError: One is not a number, not finite, or out of its range; the message has its origin, value and what
            is allowed.
    """
    _check(config, config, _CHECKS)
    for section, checks in _SECTIONS.items():
        _check(config, config.get(section), checks, section)
    _check_heads(config)


def _check_heads(config: Config) -> None:
    """Check that heads divide the width of the encoder, which is that of the decoder too."""
    width = (config.get("encoder_conf") or {}).get("output_size")
    for section in _NETS if isinstance(width, int) else ():
        heads = (config.get(section) or {}).get("attention_heads")
        if isinstance(heads, int) and width % heads:
            said = f"{section}.attention_heads must divide encoder_conf.output_size, {width}, but is {heads}"
            raise ConfigError(f"{config.origin(section, 'attention_heads')}: {said}")


def _check(config: Config, section: object, checks: Mapping[str, Rule], *keys: str) -> None:
    given = section if isinstance(section, Mapping) else {}
    for name, rule in checks.items():
        value = given.get(name)
        if value is None and (keys or name in _UNSET or name not in given):
            continue
        if name in _OPTIONAL and isinstance(value, str) and value.strip().lower() in NONE:
            continue
        may_be_list = keys or name == "keep_nbest_models"
        for each in value if may_be_list and isinstance(value, list | tuple) else [value]:
            try:
                rule.check(".".join((*keys, name)), each)
            except OptionError as error:
                raise ConfigError(f"{config.origin(*keys, name)}: {error}") from error
