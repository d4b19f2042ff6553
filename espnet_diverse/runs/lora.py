"""Low-rank adapters, which a configuration asks for by `use_adapter: true`: checked, added, saved and loaded.

Keys, names and the form of saved files are the same as in ESPnet; `nets/adapters/low_rank.py` has the adapters.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.adapters.low_rank import LowRankEmbedding, LowRankOptions, adapted, add_low_rank
from espnet_diverse.option_checks import read
from espnet_diverse.runs.config import Config, located

_KIND, _SECTION = "lora", "adapter_conf"
_WHOLE = "all"
_OF_ADAPTER = ("adapter", _SECTION, "freeze_param", "unfreeze_param")


def check_adapter(config: Config) -> None:
    """Check the adapter of a configuration, before training.

    Raises:
        ConfigError: An option is unknown or has a wrong value, nothing is frozen, or not all weights would be saved,
            without which the model cannot be loaded.
    """
    if not config.get("use_adapter"):
        return
    _check_kind(config.get("adapter", _KIND), config.origin("use_adapter"))
    with located(config, _SECTION):
        options = _options(config.get(_SECTION))
    if options.bias_type not in (None, "none"):
        reason = f"{_SECTION}.bias_type {options.bias_type!r} has no effect, in ESPnet neither"
        raise ConfigError(f"{config.origin(_SECTION, 'bias_type')}: {reason}; set unfreeze_param: ['*.bias']")
    if not config.get("freeze_param"):
        reason = "use_adapter trains an adapter and all other parameters, as nothing is frozen"
        raise ConfigError(f"{config.origin('use_adapter')}: {reason}; set freeze_param: ['*']")
    if (strategy := config.get("save_strategy", _WHOLE)) != _WHOLE:
        reason = f"save_strategy {strategy!r} leaves out weights without which the model cannot be loaded"
        raise ConfigError(f"{config.origin('save_strategy')}: {reason}; set save_strategy: {_WHOLE}")


def add_adapter(model: nn.Module, config: Mapping[str, Any]) -> None:
    """Add the adapter that a configuration asks for, if any, and set it to evaluation mode.

    Args:
        model: The model.
        config: Configuration with `use_adapter`, `adapter` and `adapter_conf`, which has `LowRankOptions` by name.

    Raises:
        ConfigError: The kind or an option is unknown, or has a wrong value; or the model has no module of a name in
            `target_modules`, or one that takes no adapter.
    """
    if config.get("use_adapter"):
        _check_kind(config.get("adapter", _KIND), "use_adapter")
        add_low_rank(model, _options(config.get(_SECTION)))


def without_adapter(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a model after its adapters were merged into its weights."""
    if not config.get("use_adapter"):
        return dict(config)
    return {key: value for key, value in config.items() if key not in _OF_ADAPTER} | {"use_adapter": False}


def check_whole(config: Mapping[str, Any], state: Mapping[str, Tensor], model: nn.Module, source: object) -> None:
    """Refuse weights of an adapter alone.

    Args:
        config: Configuration of the model.
        state: Weights by name.
        model: The model, with its adapter.
        source: The file of the weights, for messages.

    Raises:
        ModelError: Weights that `save_strategy` leaves out are missing.
    """
    strategy = config.get("save_strategy", _WHOLE)
    if config.get("use_adapter") and strategy != _WHOLE and not model.state_dict().keys() <= state.keys():
        reason = f"holds the weights of the adapter but not of the model (save_strategy: {strategy})"
        raise ModelError(f"{source}: {reason}; give weights of a run with save_strategy: {_WHOLE}")


@contextmanager
def unmerged(model: nn.Module) -> Iterator[None]:
    """Keep the weights of a model in the form of training, which has adapters of low rank apart, within this block."""
    evaluated = [module for _, module in adapted(model) if not module.training]
    for module in evaluated:
        module.train()
    try:
        yield
    finally:
        for module in evaluated:
            module.eval()


def merges(model: nn.Module) -> dict[str, tuple[float, bool]]:
    """Maps whose adapter of low rank is part of their weight in evaluation, see `frozen_part.with_product`."""
    modules = ((name, module) for name, module in adapted(model) if module.merges)
    return {name: (module.scaling, isinstance(module, LowRankEmbedding)) for name, module in modules}


def _options(values: object) -> LowRankOptions:
    return read(LowRankOptions, values or {}, _SECTION)  # type: ignore[arg-type]


def _check_kind(adapter: object, where: str) -> None:
    if adapter != _KIND:
        raise ConfigError(f"{where}: adapter {adapter!r} is not possible here; choose {_KIND}")
