"""Pretrained parameters that a training starts from: what the values of init_param name."""

from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs.config import Config
from espnet_diverse.runs.model_files import find_weights


def known_weights(parameters: str) -> Path:
    """Like `weights_file`, but return a path even if it names no weights yet."""
    try:
        return weights_file(parameters)
    except ModelError:
        return Path(parameters.partition(":")[0])


def weights_file(parameters: str) -> Path:
    """The file that a value of init_param names: weights, a packed model, or the weights in the directory of a run."""
    if parameters.startswith("hf:"):
        message = "a model of the Hub is not possible here; give a file of weights, or run espnet-diverse fine-tune"
        raise ModelError(f"init_param {parameters}: {message}")
    path = Path(parameters.partition(":")[0])
    return find_weights(path) if path.is_dir() else path


def set_initial(config: Config, init_param: Sequence[str]) -> None:
    """Set the key init_param of a configuration, with a file of weights instead of a directory or a packed model.

    Args:
        config: The configuration, which is changed.
        init_param: Values of --init_param, which take the place of those of the configuration.
    """
    if init_param:
        config.add({"init_param": list(init_param)}, {("init_param",): "--init_param"})
    if "init_param" in config:
        config["init_param"] = _initial_weights(config)


def _initial_weights(config: Config) -> list[str]:
    """The values of the key init_param, see `_with_file`."""
    values = config["init_param"] or []
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        message = f"init_param is {values!r:.100}; give a list of models, such as [exp/asr:encoder:encoder]"
        raise ConfigError(f"{config.origin('init_param')}: {message}")
    return list(map(_with_file, values))


def _with_file(parameters: str) -> str:
    """A value of init_param with a file of weights instead of a directory or a packed model."""
    path = weights_file(parameters)
    if path.suffix == ".zip":
        from espnet_diverse.runs.packed.archive import unpacked

        path = find_weights(unpacked(path))
    return "".join([str(path), *parameters.partition(":")[1:]])
