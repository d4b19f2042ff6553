"""Pretrained frontends in configurations: refused types, and the architectures that config.yaml contains."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.frontends.fused_frontend import FusedFrontends
from espnet_diverse.nets.frontends.pretrained_speech import read_architecture
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend
from espnet_diverse.runs.config import find_named
from espnet_diverse.runs.criteria import is_frozen
from espnet_diverse.untrusted.foreign_config import TRUST

_REFUSED = {
    "s3prl": "s3prl executes text of checkpoints, and fetches them whenever a model is built",
    "whisper": "openai-whisper fetches a model that is not in its cache, also to build a trained one",
}
_INSTEAD = {"s3prl": "hf:facebook/hubert-base-ls960", "whisper": "hf:openai/whisper-small"}


def check_frontend(config: Mapping) -> None:
    """Refuse a frontend of ESPnet that fetches or executes something whenever it is built.

    Raises:
        ConfigError: The frontend is refused, and the environment variable `TRUST` is not 1.
    """
    kind = str(config.get("frontend")).lower()
    if kind in _REFUSED and os.environ.get(TRUST) != "1":
        todo = f"set frontend: huggingface and frontend_conf.model, for example {_INSTEAD[kind]}"
        raise ConfigError(f"frontend {kind} is not allowed: {_REFUSED[kind]}; {todo}; or set {TRUST}=1")


def described(frontend_conf: Mapping[str, Any], frontend: nn.Module | None) -> dict[str, Any]:
    """Options of a frontend with the architecture of each pretrained encoder that it has.

    Args:
        frontend_conf: The options that it was built from.
        frontend: The frontend.
    """
    if isinstance(frontend, BertFrontend):
        return {**frontend_conf, "bert_config": frontend.bert_config}
    if isinstance(frontend, HuggingFaceFrontend):
        return {**frontend_conf, "architecture": frontend.architecture}
    if isinstance(frontend, FusedFrontends):
        parts = zip(frontend_conf["frontends"], frontend.frontends, strict=True)
        return {**frontend_conf, "frontends": [described(options, part) for options, part in parts]}
    return dict(frontend_conf)


def standalone(config: Mapping, config_file: Path) -> dict[str, Any]:
    """The `frontend_conf` of a trained model, in which no pretrained encoder names a folder or repository.

    An architecture that ESPnet left out of config.yaml is read from the folder that config.yaml names or the cache of
    the Hub, without a network.

    Args:
        config: Configuration of the run.
        config_file: Path of its config.yaml.

    Raises:
        ModelError: An architecture is missing, or is not allowed.
    """
    options = dict(config.get("frontend_conf") or {})
    kind = str(config.get("frontend")).lower()
    if kind == "bert":  # its weights are in the model's own file
        return {**options, "bert": None}
    if kind == "huggingface":
        return _standalone(options, config_file)
    if parts := list(_fused(config)):
        entries = [_standalone(part, config_file) if part["frontend_type"] == "huggingface" else part for part in parts]
        return {**options, "frontends": entries}
    return options


def pretrained_encoders(config: Mapping) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Architecture of each pretrained speech encoder of a trained model, and whether that encoder is frozen."""
    options = config.get("frontend_conf") or {}
    frozen = is_frozen("frontend.encoder", config)
    if str(config.get("frontend")).lower() == "huggingface" and options.get("architecture"):
        yield options["architecture"], frozen or bool(options.get("freeze_weights"))
    for part in _fused(config):
        if part.get("architecture"):
            yield part["architecture"], True


def _standalone(options: Mapping[str, Any], config_file: Path) -> dict[str, Any]:
    architecture, model = options.get("architecture"), options.get("model")
    if not architecture:
        if not isinstance(model, str):
            raise ModelError(f"{config_file}: frontend_conf has neither architecture nor model; restore config.yaml")
        try:
            folder = find_named(model, config_file, os.path.isdir)
            architecture = read_architecture(folder or model, options.get("download_dir"), offline=True)
        except ConfigError as error:
            raise ModelError(
                f"{config_file}: the architecture of the pretrained encoder is unknown: {error}"
            ) from error
    remaining = {name: value for name, value in options.items() if name not in ("download_dir", "load_pretrained")}
    return {**remaining, "model": None, "architecture": architecture}


def _fused(config: Mapping) -> list[Mapping]:
    """Options of the frontends of a fused frontend, those that are mappings."""
    parts = (config.get("frontend_conf") or {}).get("frontends")
    is_fused = str(config.get("frontend")).lower() == "fused" and isinstance(parts, list)
    return [part for part in parts if isinstance(part, Mapping)] if is_fused else []
