"""Pruning a model with head selection, low-rank adapters or gates of patterns to what one language or domain needs.

Every attention with head selection keeps the heads that the condition selects, so that plain attention computes the
same result. With the core `pattern_gates` each head keeps the pattern of its largest gate, which computes nearly the
same. The tag of the target language becomes the embedding of <sos/eos>. Low-rank adapters become part of the weights,
including adapters that do not depend on conditions. A net without any other option of this package is renamed to
ESPnet's own, so that the model loads without this package.
"""

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from espnet_diverse.attention import PARTS, MultiHeadAttention
from espnet_diverse.attention.cores.pattern_gates import PatternGates
from espnet_diverse.attention.pruning import prune_heads
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.data.output_paths import check_prepared
from espnet_diverse.decoding.condition_ids import check_conditions
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.adapters.low_rank import adapted, merge_low_rank
from espnet_diverse.nets.condition_rows import ConditionRows
from espnet_diverse.nets.start_tag import TaggedEmbedding
from espnet_diverse.nets.subsampling import GATED
from espnet_diverse.runs.condition_names import names_of_conditions
from espnet_diverse.runs.config_checks import NETS
from espnet_diverse.runs.lora import without_adapter
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.runs.packed.run_files import write_model
from espnet_diverse.runs.tasks import load_model, read_config
from espnet_diverse.scope import scope

_PLAIN_MODEL = {"asr": "espnet", "st": "espnet", "mt": "mt", "s2t": "espnet", "s2t_ctc": "espnet_ctc", "lm": "lm"}
_SHARED = ("share_decoder_input_output_embed", "share_encoder_decoder_input_embed")  # weights of a decoder's embedding
_GATES = "pattern_gates"
_UNUSED = (None, {}, {"core": "softmax"})  # values with which an option of this package has no effect


def prune(
    model_dir: Path, output_dir: Path, conditions: Mapping[str, str], model_file: str | Path | None = None
) -> Path:
    """Write config.yaml, weights, vocabulary and feature statistics of the model of one condition.

    Args:
        model_dir: Directory of the run.
        output_dir: Directory to write to: a new or empty one, or one that `prune` has written.
        conditions: Values by condition; empty if the model has adapters or gates and depends on no condition. The
            target language is by default the language.
        model_file: Weights, see `find_weights`.

    Returns:
        Path of the weights, which keep the name of `model_file`.

    Raises:
        ConfigError: A condition or value is unknown or missing, no part of the model can be pruned, or `output_dir` is
            `model_dir`.
        DataError: `output_dir` has other files.
        ModelError: A file is missing or damaged, or the weights do not fit the configuration.
    """
    if output_dir.resolve() == model_dir.resolve():
        raise ConfigError(f"{output_dir}: is the directory of the model itself; give another one")
    check_prepared(output_dir, "prune")
    config = read_config(model_dir / "config.yaml")
    task = config.get("task", "asr")
    weights = find_weights(model_dir, model_file, config)
    model, _ = load_model(model_dir, weights, task=task)
    prune_model(model, conditions)
    write_model(model, pruned_config(config, model), model_dir, output_dir / weights.name, "prune")
    return output_dir / weights.name


def prune_model(model: nn.Module, conditions: Mapping[str, str]) -> None:
    """Prune a model in place and set it to evaluation mode.

    Args:
        model: The model.
        conditions: Values by condition.

    Raises:
        ConfigError: A condition or value is unknown or missing, or no part of the model can be pruned.
    """
    ids = {condition: torch.tensor([index]) for condition, index in _indices(model, conditions).items()}
    model.eval()
    with scope(ids, collect=False), torch.no_grad():
        for module in list(model.modules()):
            if isinstance(module, MultiHeadAttention):
                prune_heads(module)
            elif isinstance(module, nn.Sequential) and len(module) and isinstance(module[0], TaggedEmbedding):
                module[0] = _untagged(module[0], model.sos)
        merge_low_rank(model)


def pruned_config(config: Mapping, model: nn.Module) -> dict:
    """The configuration of a run after `prune_model`: without head selection, gates, tags and adapters."""
    config = copy.deepcopy(without_adapter(config))
    for part, nets in NETS.items():
        section = config.get(f"{part}_conf") or {}
        for key in ("attention", "cross_attention"):
            attention = section.get(key) or {}
            gated = attention.get("core") == _GATES
            if gated:
                section[key] = attention = {name: attention[name] for name in ("layers", *PARTS) if name in attention}
            if attention.pop("selection", None) and attention.get("head_patterns") or gated:
                attention["head_patterns"] = _kept_patterns(getattr(model, part), key == "cross_attention")
        if section.pop("start_tag", None) is not None:  # now the embedding of <sos/eos>, in the decoder's input only
            config["model_conf"] = {k: v for k, v in (config.get("model_conf") or {}).items() if k not in _SHARED}
        if config.get(part) in nets and (plain := _espnets_options(section, nets[config[part]])) is not None:
            config[part], config[f"{part}_conf"] = config[part].removeprefix("diverse_"), plain
    _rename_model(config, model)
    return config


def _kept_patterns(net: nn.Module, cross: bool) -> list:
    """The option `head_patterns` of the heads that a net has kept, in self- or in cross-attention."""
    modules = (module for module in net.modules() if isinstance(module, MultiHeadAttention))
    by_layer = [module.patterns for module in modules if module.patterns is not None and module.patterns.cross == cross]
    layers = [[pattern.option for pattern in layer.patterns] for layer in by_layer]
    return layers[0] if all(layer == layers[0] for layer in layers) else layers


def _espnets_options(section: Mapping, net: type) -> dict | None:
    """The options of `net` for ESPnet's base class; None where an option of this package has an effect."""
    base = next(kind for kind in net.__mro__ if kind.__module__.startswith("espnet2."))
    known = inspect.signature(base).parameters
    gated = section.get("input_layer") == GATED
    ours = {key: value for key, value in section.items() if key not in known and (gated or key != "conv_channels")}
    if gated or any(value not in _UNUSED for value in ours.values()):
        return None
    return {key: value for key, value in section.items() if key in known}


def _rename_model(config: dict, model: nn.Module) -> None:
    """Rename our model to ESPnet's, if there is one and all nets are ESPnet's; else keep the conditions in use."""
    used = {condition for module in model.modules() if isinstance(module, ConditionRows) for condition in module.by}
    used |= {getattr(model, "by", None)}  # the classes of a classifier
    options = dict(config.get("model_conf") or {})
    options.pop("conditions", None)
    names = {condition: values for condition, values in names_of_conditions(config).items() if condition in used}
    task = config.get("task", "asr")
    is_ours = task in _PLAIN_MODEL and config.get("model") == "diverse"
    if not is_ours or any(str(config.get(part)).startswith("diverse_") for part in NETS):
        config["model_conf"] = options | ({"conditions": names} if names else {})
        return
    if task == "st" and "ctc_weight" in options:
        options["st_mtlalpha"] = options.pop("ctc_weight")  # ESPnet's name of the option
    config["model"], config["model_conf"] = _PLAIN_MODEL[task], options


def _indices(model: nn.Module, conditions: Mapping[str, str]) -> dict[str, int]:
    """Index of the value of each condition that the prunable parts depend on."""
    selections = [module.selection for module in model.modules() if isinstance(module, MultiHeadAttention)]
    rows = [module.rows for module in model.modules() if isinstance(module, TaggedEmbedding)]
    adapters = [module.rows for _, module in adapted(model)]
    rows += [adapter for adapter in adapters if adapter is not None]
    known = {condition: names for part in selections if part is not None for condition, names in part.names.items()}
    known |= {condition: names for row in rows for condition, names in zip(row.by, row.names, strict=True)}
    gates = any(isinstance(module, PatternGates) for module in model.modules())
    if not known and not adapters and not gates:
        raise ConfigError(
            "no part of this model depends on a language or domain, so it cannot be pruned; give another model"
        )
    check_conditions(conditions)
    values = dict(conditions)
    if "tgtlang" in known and "lang" in values:
        values.setdefault("tgtlang", values["lang"])
    for condition in conditions:
        if condition not in known and not (condition == "lang" and "tgtlang" in known):
            raise ConfigError(
                f"{CONDITIONS[condition].option} {conditions[condition]}: no part of this model depends on the "
                f"{CONDITIONS[condition].label}; leave it out"
            )
    for condition, names in known.items():
        if values.get(condition) not in names:
            fault = f"{values[condition]!r} is unknown" if condition in values else "is missing"
            raise ConfigError(f"{CONDITIONS[condition].option} {fault}; this model knows: {' '.join(names)}")
    return {condition: names.index(values[condition]) for condition, names in known.items()}


def _untagged(embedding: TaggedEmbedding, sos: int) -> nn.Embedding:
    """The embedding of tokens, with the tag of the condition in the open scope for <sos/eos>, which is always first."""
    weight = embedding.weight.clone()
    weight[sos] = embedding.start(embedding.rows(1))[0]
    return nn.Embedding(*weight.shape, _weight=weight)
