"""Pruning: the model of one language or domain, cut out of a multilingual or multi-domain one.

Of every attention with head selection the heads stay that the condition picks, so that plain attention computes what
the selection did. The tag of the target language becomes the embedding of <sos/eos>. A net of which nothing else is
ours is renamed to ESPnet's own, which then loads without this package.
"""

import copy
import inspect
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.condition_rows import ConditionRows
from espnet_diverse.nets.start_tag import TaggedEmbedding
from espnet_diverse.nets.subsampling import GATED
from espnet_diverse.option_checks import with_present_names
from espnet_diverse.scope import scope
from espnet_diverse.training import checkpoint
from espnet_diverse.training.condition_names import names_of_conditions
from espnet_diverse.training.config import save
from espnet_diverse.training.tasks import find_weights, load_model, read_config

_NETS = {"encoder": ENCODERS, "decoder": DECODERS}
_PLAIN_MODEL = {"asr": "espnet", "st": "espnet", "mt": "mt", "s2t": "espnet"}
_UNUSED = (None, {}, {"core": "softmax"})  # values at which an option of ours does nothing
_VOCABULARY = ("tokens.txt", "tokens.yaml", "bpe.model", "tokenizer.json")


def prune(
    model_dir: Path, output_dir: Path, conditions: Mapping[str, str], model_file: str | Path | None = None
) -> Path:
    """Write config.yaml, weights, vocabulary and feature statistics of the model of one condition.

    Args:
        model_dir: Directory of the run.
        output_dir: Where to write; another directory.
        conditions: Name by condition of `conditions.CONDITIONS`; without one the target language is the language.
        model_file: Weights, as of `find_weights`.

    Returns:
        Path of the weights, which keep the name of `model_file`.

    Raises:
        ConfigError: A name is unknown or missing, nothing in the model goes by a condition, or `output_dir` is
            `model_dir`.
        ModelError: A file is missing or damaged, or the weights do not fit the configuration.
    """
    if output_dir.resolve() == model_dir.resolve():
        raise ConfigError(f"{output_dir}: is the directory of the model that is pruned; give another one")
    weights = find_weights(model_dir, model_file)
    config = read_config(model_dir / "config.yaml")
    model, _ = load_model(model_dir, weights, task=config.get("task", "asr"))
    prune_model(model, conditions)
    output_dir.mkdir(parents=True, exist_ok=True)
    _copy_files(config, model_dir, output_dir)
    checkpoint.save(model.state_dict(), output_dir / weights.name)
    save(pruned_config(config, model), output_dir / "config.yaml")
    return output_dir / weights.name


def prune_model(model: nn.Module, conditions: Mapping[str, str]) -> None:
    """Keep of `model`, in place, what the named conditions use; it is in evaluation mode then.

    Raises:
        ConfigError: As of `prune`.
    """
    ids = {condition: torch.tensor([index]) for condition, index in _indices(model, conditions).items()}
    model.eval()
    with scope(ids, collect=False), torch.no_grad():
        for module in list(model.modules()):
            if isinstance(module, MultiHeadAttention):
                module.prune()
            elif isinstance(module, nn.Sequential) and len(module) and isinstance(module[0], TaggedEmbedding):
                module[0] = _untagged(module[0], model.sos)


def pruned_config(config: Mapping, model: nn.Module) -> dict:
    """The configuration of a run after `prune_model`: `config` without what was pruned."""
    config = copy.deepcopy(with_present_names(config, "config.yaml"))
    for part, nets in _NETS.items():
        section = config.get(f"{part}_conf") or {}
        for key in ("attention", "cross_attention"):
            (section.get(key) or {}).pop("selection", None)
        section.pop("start_tag", None)
        if config.get(part) in nets and (plain := _espnets_options(section, nets[config[part]])) is not None:
            config[part], config[f"{part}_conf"] = config[part].removeprefix("diverse_"), plain
    _rename_model(config, model)
    return config


def _espnets_options(section: Mapping, net: type) -> dict | None:
    """The options of `net` for ESPnet's class that it is derived from; None where one of ours does something."""
    theirs = next(kind for kind in net.__mro__ if kind.__module__.startswith("espnet2."))
    known = inspect.signature(theirs).parameters
    gated = section.get("input_layer") == GATED
    ours = {key: value for key, value in section.items() if key not in known and (gated or key != "conv_channels")}
    if gated or any(value not in _UNUSED for value in ours.values()):
        return None
    return {key: value for key, value in section.items() if key in known}


def _rename_model(config: dict, model: nn.Module) -> None:
    """Take our name and options off the model where both nets are ESPnet's; else keep the conditions still used."""
    used = {condition for module in model.modules() if isinstance(module, ConditionRows) for condition in module.by}
    options = dict(config.get("model_conf") or {})
    options.pop("conditions", None)
    names = {condition: values for condition, values in names_of_conditions(config).items() if condition in used}
    if any(str(config.get(part)).startswith("diverse_") for part in _NETS):
        config["model_conf"] = options | ({"conditions": names} if names else {})
        return
    task = config.get("task", "asr")
    if task == "st" and "ctc_weight" in options:
        options["st_mtlalpha"] = options.pop("ctc_weight")  # ESPnet's name of it
    config["model"], config["model_conf"] = _PLAIN_MODEL[task], options


def _indices(model: nn.Module, conditions: Mapping[str, str]) -> dict[str, int]:
    """Index of the condition on each condition that something to prune goes by."""
    selections = [module.selection for module in model.modules() if isinstance(module, MultiHeadAttention)]
    rows = [module.rows for module in model.modules() if isinstance(module, TaggedEmbedding)]
    known = {condition: names for each in selections if each is not None for condition, names in each.names.items()}
    known |= {condition: names for each in rows for condition, names in zip(each.by, each.names, strict=True)}
    if not known:
        raise ConfigError("nothing in this model goes by language or domain; there is nothing to prune")
    given = dict(conditions)
    if "tgtlang" in known and "lang" in given:
        given.setdefault("tgtlang", given["lang"])
    for condition in conditions:
        if condition not in known and not (condition == "lang" and "tgtlang" in known):
            raise ConfigError(
                f"{CONDITIONS[condition].option} {conditions[condition]}: nothing in this model goes by {condition}; "
                "leave it out"
            )
    for condition, names in known.items():
        if given.get(condition) not in names:
            fault = f"{given[condition]!r} is unknown" if condition in given else "is missing"
            raise ConfigError(f"{CONDITIONS[condition].option} {fault}; this model knows: {' '.join(names)}")
    return {condition: names.index(given[condition]) for condition, names in known.items()}


def _untagged(embedding: TaggedEmbedding, sos: int) -> nn.Embedding:
    """The embedding of tokens with the tag of the open scope's condition for <sos/eos>, which only ever comes first."""
    weight = embedding.weight.clone()
    weight[sos] = embedding.start(embedding.rows(1))[0]
    return nn.Embedding(*weight.shape, _weight=weight)


def _copy_files(config: dict, model_dir: Path, output_dir: Path) -> None:
    """Copy what loading the model takes, and let `config` name the copies."""
    for folder in (model_dir, model_dir / "src_tokens"):
        for name in _VOCABULARY:
            if (folder / name).is_file():
                _copy(folder / name, output_dir / folder.relative_to(model_dir) / name)
    normalise = config.get("normalize_conf") or {}
    for section, key in ((config, "bpemodel"), (config, "src_bpemodel"), (normalise, "stats_file")):
        if section.get(key):
            source = Path(section[key])
            inside = source.resolve().is_relative_to(model_dir.resolve())
            place = source.resolve().relative_to(model_dir.resolve()) if inside else Path(source.name)
            section[key] = str(_copy(source, output_dir.absolute() / place))


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target
