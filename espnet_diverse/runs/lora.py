"""ESPnet's adapters of low rank, `use_adapter: true`: added to a model that is trained or loaded, and checked.

Hu et al. 2022, "LoRA: Low-rank adaptation of large language models". ESPnet's `create_adapter` and the package loralib
do the work. In evaluation mode the product of the two small matrices is added to the weight beside them. ESPnet saves
weights in this form, so a model must be in evaluation mode when they are loaded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from espnet2.layers import create_adapter as espnet_adapters
from espnet2.layers.create_adapter_fn import create_lora_adapter
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs.config import Config, check_keys

_KIND = "lora"
_WHOLE = "all"


def check_adapter(config: Config) -> None:
    """Check the adapter of a configuration, before training.

    Raises:
        ConfigError: loralib is not installed, an option is unknown, or not all weights would be saved, without which
            the model cannot be loaded.
    """
    if not config.get("use_adapter"):
        return
    _check_kind(config.get("adapter", _KIND), config.origin("use_adapter"))
    check_keys(config, set(create_lora_adapter.__annotations__) - {"model", "return"}, "adapter_conf")
    if (strategy := config.get("save_strategy", _WHOLE)) != _WHOLE:
        what = f"save_strategy {strategy!r} leaves out weights without which the model cannot be loaded"
        raise ConfigError(f"{config.origin('save_strategy')}: {what}; set save_strategy: {_WHOLE}")


def create_adapter(model: nn.Module, adapter: str, adapter_conf: Mapping[str, Any]) -> None:
    """Add an adapter to a model, and put it in evaluation; replacement of ESPnet's function of this name.

    Args:
        model: The model.
        adapter: Kind of adapter: "lora".
        adapter_conf: Options of ESPnet's `create_lora_adapter`.

    Raises:
        ConfigError: loralib is not installed; the model has no module of a name in `target_modules`, or one that takes
            no adapter; or an option is unknown or has a wrong value.
    """
    _check_kind(adapter, "use_adapter")
    try:
        espnet_adapters.create_adapter(model, adapter, dict(adapter_conf))
    except Exception as error:  # of any class, as for other parts of a configuration
        raise ConfigError(f"adapter_conf: {' '.join(str(error).split()).rstrip('.')}; correct it") from error
    for name, module in model.named_modules():
        if not isinstance(module, MultiHeadAttention) or not any(map(_is_adapted, module.children())):
            continue
        if module.selection is not None or module.core.tied:
            what = "with head selection" if module.selection is not None else f"{module.core.name!r} with tied values"
            raise ConfigError(
                f"adapter_conf.target_modules: {name} is an attention {what}, whose projections take no adapter; "
                "choose other modules"
            )


def add_adapter(model: nn.Module, config: Mapping[str, Any]) -> None:
    """Add the adapter that a configuration asks for, if it does, see `create_adapter`."""
    if config.get("use_adapter"):
        create_adapter(model, config.get("adapter", _KIND), config.get("adapter_conf") or {})


def check_whole(config: Mapping[str, Any], state: Mapping[str, Tensor], model: nn.Module, source: object) -> None:
    """Refuse weights of an adapter alone.

    Args:
        config: Configuration of the model.
        state: Weights by name.
        model: The model, with its adapter.
        source: The file of the weights, for messages.

    Raises:
        ModelError: Weights are missing that `save_strategy` leaves out.
    """
    strategy = config.get("save_strategy", _WHOLE)
    if config.get("use_adapter") and strategy != _WHOLE and not model.state_dict().keys() <= state.keys():
        what = f"holds the weights of the adapter without those of the model (save_strategy: {strategy})"
        raise ModelError(f"{source}: {what}; give weights of a run with save_strategy: {_WHOLE}")


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Have the weights in the form in which they are saved, while a model trains."""
    adapted = [module for module in model.modules() if module.training and _is_adapted(module)]
    for module in adapted:
        module.eval()
    try:
        yield
    finally:
        for module in adapted:
            module.train()


def _check_kind(adapter: object, where: str) -> None:
    if adapter != _KIND:
        raise ConfigError(f"{where}: adapter {adapter!r} is not possible here; choose {_KIND}")
    if find_spec("loralib") is None:
        raise ConfigError(f"{where}: use_adapter needs the package loralib: pip install 'espnet_diverse[lora]'")


def _is_adapted(module: nn.Module) -> bool:
    return "lora_A" in module._parameters
