"""Checks for numbers in a configuration with which training could not begin, or would change nothing."""

import math
from collections.abc import Mapping

from espnet_diverse.errors import ConfigError, prefixed
from espnet_diverse.option_checks import SEED, Rule
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
    "seed": SEED,
    "grad_clip": _LIMIT,
    "grad_clip_type": _LIMIT,
}
_OF_NET: dict[str, Rule] = {
    **dict.fromkeys(("output_size", "attention_heads", "num_blocks", "linear_units", "cgmlp_linear_units"), _COUNT),
    **dict.fromkeys(("conv_channels", "positionwise_conv_kernel_size", "cnn_module_kernel"), _COUNT),
    **dict.fromkeys(("cgmlp_conv_kernel", "merge_conv_kernel", "max_pos_emb_len"), _COUNT),
    **{f"{of}dropout_rate": _RATE for of in ("", "positional_", "attention_", "self_attention_", "src_attention_")},
    **dict.fromkeys(("layer_drop_rate", "stochastic_depth_rate"), _RATE),
    "interctc_layer_idx": Rule(list, of=_COUNT),
}
_OF_MODEL: dict[str, Rule] = {
    **dict.fromkeys(("ctc_weight", "mtlalpha", "st_mtlalpha", "asr_weight", "mt_weight"), _RATE),
    **dict.fromkeys(("lsm_weight", "interctc_weight"), _SHARE),
    "auxiliary_factor": _NOT_NEGATIVE,
    "balance_interval": _NUMBER,
    "patch_size": _COUNT,
}
_SECTIONS: dict[str, dict[str, Rule]] = {
    "optim_conf": {"lr": _POSITIVE, "weight_decay": _SHARE, "eps": _NOT_NEGATIVE, "momentum": _SHARE, "betas": _SHARE},
    "scheduler_conf": {"warmup_steps": _COUNT, "gamma": _POSITIVE, "lr_factor": _POSITIVE},
    "model_conf": _OF_MODEL,
    "frontend_conf": dict.fromkeys(("embed_dim", "n_mels", "n_fft", "hop_length", "win_length"), _COUNT)
    | {"positional_dropout_rate": _RATE},
    "ctc_conf": {"dropout_rate": _RATE},
    **dict.fromkeys(("encoder_conf", "decoder_conf"), _OF_NET),
    "lm_conf": _OF_NET | dict.fromkeys(("embed_unit", "att_unit", "head", "unit", "layer", "nlayers"), _COUNT),
    "classifier_conf": _OF_NET
    | dict.fromkeys(("embed_dim", "hidden_size", "pooling_width", "heads"), _COUNT)
    | {"frobenius": _NOT_NEGATIVE},
}
_HEADS = {
    "encoder_conf.attention_heads": "encoder_conf.output_size",
    "decoder_conf.attention_heads": "encoder_conf.output_size",
    "classifier_conf.attention_heads": "classifier_conf.output_size",
    "lm_conf.head": "lm_conf.att_unit",
}
"""Numbers of heads, and the widths that they divide: a decoder has the encoder's width."""
_OPTIONAL = ("patience", "num_iters_per_epoch", "valid_batch_size", "valid_batch_bins")
_UNSET = (*_OPTIONAL, "log_interval", "ctc_weight", "win_length")  # the keys that may be null
_LISTS = ("keep_nbest_models", "betas", "eps", "stochastic_depth_rate")  # the keys that may be lists of such numbers


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
    """Check that heads divide the width of their net."""
    for key, of_width in _HEADS.items():
        heads, width = (_value(config, name) for name in (key, of_width))
        if isinstance(heads, int) and isinstance(width, int) and width % heads:
            message = f"{key} must divide {of_width}, {width}, but is {heads}"
            raise ConfigError(f"{config.origin(*key.split('.'))}: {message}")


def _value(config: Config, key: str) -> object:
    section, name = key.split(".")
    return (config.get(section) or {}).get(name)


def _check(config: Config, section: object, checks: Mapping[str, Rule], *keys: str) -> None:
    options = section if isinstance(section, Mapping) else {}
    for name, rule in checks.items():
        value = options.get(name)
        if name not in options or value is None and name in _UNSET:
            continue
        if name in _OPTIONAL and isinstance(value, str) and value.strip().lower() in NONE:
            continue
        for item in value if name in _LISTS and isinstance(value, list | tuple) else [value]:
            with prefixed(config.origin(*keys, name)):
                rule.check(".".join((*keys, name)), item)
