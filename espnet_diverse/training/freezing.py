"""Parameters that training leaves unchanged, chosen by their names."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.adapters.bottleneck import keep_statistics
from espnet_diverse.nets.adapters.low_rank import adapted


def freeze(model: nn.Module, names: str | Sequence[str] | None, but: str | Sequence[str] | None = None) -> None:
    """Freeze parameters of `model`, as ESPnet does for `freeze_param`, and shared ones by each of their names.

    The parameters of an adapter of low rank (`use_adapter`) are trained, as ESPnet adds it after it has frozen the
    rest. With one, frozen batch norms keep their statistics.

    ESPnet knows a shared parameter by its first name alone, decoder.embed and not decoder.output_layer, and ignores
    names that the model does not have; here they are an error.

    Args:
        model: The model.
        names: Names of parameters or modules, or patterns of names of parameters with `*`, or one of them.
        but: Names and patterns of exceptions, which are trained, `unfreeze_param`.

    Raises:
        ConfigError: The model has nothing of that name, no parameter is left to train, or a map with an adapter of low
            rank is trained itself.
    """
    names, but = ([value] if isinstance(value, str) else value or () for value in (names, but))
    for name in names:
        for full, parameter in _named(model, name, "freeze_param"):
            parameter.requires_grad_(full.rpartition(".")[2].startswith("lora_") and parameter.requires_grad)
    for name in but:
        for _, parameter in _named(model, name, "unfreeze_param"):
            parameter.requires_grad_(True)
    if names and not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"freeze_param {' '.join(names)} leaves no parameter to train; freeze less")
    trained = [name for name, module in adapted(model) if module.weight.requires_grad]
    if trained:
        reason = f"use_adapter: {trained[0]} has an adapter, and its weight is trained itself"
        raise ConfigError(f"{reason}; freeze it by freeze_param, or leave it out of adapter_conf.target_modules")
    if any(True for _ in adapted(model)):
        keep_statistics(model)


def _named(model: nn.Module, name: str, key: str) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters of a name, a module or a pattern, with each of their names; `key` asks for them."""
    parameters = list(model.named_parameters(remove_duplicate=False))
    if set(name) & set("*?["):
        matches = [(full, parameter) for full, parameter in parameters if fnmatchcase(full, name)]
    else:
        matches = [(full, p) for full, p in parameters if full == name or full.startswith(f"{name}.")]
    if not matches:
        parts = " ".join(dict.fromkeys(full.partition(".")[0] for full, _ in parameters))
        raise ConfigError(f"{key}: the model has nothing under the name {name!r}; it has: {parts}")
    return matches
