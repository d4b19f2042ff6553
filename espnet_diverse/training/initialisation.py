"""Initialising parts of a model from a trained model, for example the encoder of speech translation from recognition.

Parameters of a language or domain are copied by its name: the trained model may have more of them, in another order.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.attention.selection.head_selection import StaticSelection
from espnet_diverse.attention.selection.learned_selection import LearnedSelection
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.errors import ModelError, abridged
from espnet_diverse.nets.adapters.bottleneck import Adapters
from espnet_diverse.nets.adapters.low_rank import LowRank, LowRankEmbedding, LowRankLinear
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.start_tag import TaggedEmbedding
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.condition_names import names_of_conditions
from espnet_diverse.runs.config import load

log = logging.getLogger(__name__)

Label = tuple[str, ...]
_OUTPUT_LAYERS = (".ctc_lo", ".output_layer", "decoder.output", ".lin_out", ".lm_head", "lm.decoder")
"""Ends of the names of linear maps to tokens: of CTC, decoders, transducers and language models."""
_OF_SOURCE = ("frontend.", "src_", "extra_asr_decoder.", "ctc.")  # parameters of the source text, in translation
_TOKEN_DIM: dict[type, dict[str, int]] = {
    LowRankLinear: {"weight": 0, "bias": 0, "lora_B": -2, "lora_magnitude": -1},
    LowRankEmbedding: {"weight": 0, "lora_A": -1},
}
"""Dimension of parameters that has a row or column for each token; adapters by condition have one more before it."""


def initialise(
    init_param: str,
    model: nn.Module,
    ignore_init_mismatch: bool = False,
    map_location: str | torch.device = "cpu",
    config: Mapping = MappingProxyType({}),
) -> None:
    """Copy parameters of a trained model, as ESPnet's `load_pretrained_model` does.

    Parameters that the trained model does not have, for example those of adapters, keep their values. Schedules of
    modules continue, except of a module whose parameters do not all fit.

    Args:
        init_param: `file:source:target:excluded`, for example `exp/asr/valid.acc.ave.pth:encoder:encoder`. Parameters
            of the file below the name `source` are copied to the model's parameters below the name `target`, except
            parameters whose names begin with one of `excluded` (separated by commas). Everything after the file may be
            omitted.
        model: The model whose parameters are set.
        ignore_init_mismatch: Whether to skip, with a warning, parameters that the model lacks or that do not fit.
        map_location: Device to which the file is loaded.
        config: Configuration of the model, whose `token_list` and `src_token_list` are compared with the trained
            model's. With `init_known_tokens`, parameters with a row for each token get the rows of the tokens that both
            have; the others keep their values.

    Raises:
        ModelError: The file or the config.yaml in its directory is damaged, the file is missing, a name is unknown,
            parameters do not fit, or parameters of tokens are for another vocabulary.
    """
    path, source, target, excluded = (init_param.split(":") + [""] * 3)[:4]
    state = checkpoint.load_weights(path, map_location)
    skipped = tuple(excluded.split(",")) if excluded else ()
    state = {name: value for name, value in state.items() if not name.startswith(skipped)}
    expected = _under(target, model.state_dict(), "the model")
    part = model.get_submodule(target)
    trained = _trained_config(Path(path))
    parameters = checkpoint.with_present_parameters(_under(source, state, path), expected)
    parameters, faults = _by_condition(part, parameters, names_of_conditions(trained))
    of_tokens = _of_other_tokens(parameters, _token_parameters(model, target), (source, trained), (target, config))
    if config.get("init_known_tokens"):
        parameters |= _known_rows(parameters, expected, of_tokens)
    else:
        faults |= dict.fromkeys(of_tokens, "(of other tokens)")
    for name, value in parameters.items():
        if fault := checkpoint.misfit(value, expected[name]) if name in expected else "(not in the model)":
            faults[name] = fault
    fitting = {name: value for name, value in parameters.items() if name not in faults}
    if faults:
        named = abridged(f"{name} {fault}" for name, fault in faults.items())
        message = f"{path}: {len(faults)} of {len(parameters)} parameters do not fit the model: {named}"
        if not ignore_init_mismatch:
            same = "the same configuration and vocabulary (--tokens_dir)"
            rows = ", set init_known_tokens to take the rows of known tokens" if of_tokens else ""
            raise ModelError(f"{message}; take {same}{rows}, exclude them, or set ignore_init_mismatch")
        log.warning(message)
    if not fitting:
        raise ModelError(f"init_param {init_param}: no parameter of {path} fits the model")
    part.load_state_dict(expected | fitting)
    for name, module in part.named_modules():
        owner = name.removesuffix("updates")
        if isinstance(module, LearnedSelection) or (
            isinstance(module, UpdateCounter) and not any(fault.startswith(owner) for fault in faults)
        ):
            module.mark_start()
        loaded = {key for key in ("weight", "lora_B", "lora_magnitude") if f"{name}.{key}".lstrip(".") in fitting}
        if isinstance(module, LowRank) and "weight" in loaded and "lora_magnitude" not in loaded:
            module.take_lengths("lora_B" in loaded)
    unset = [name for name in expected if name not in fitting]
    log.info("init_param %s: %d set, %d as they were: %s", init_param, len(fitting), len(unset), " ".join(unset))


def _under(prefix: str, state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Parameters of `state` below the name `prefix`, which is removed from their names; all if it is empty."""
    if not prefix:
        return dict(state)
    tensors = {name.removeprefix(f"{prefix}."): value for name, value in state.items() if name.startswith(f"{prefix}.")}
    if not tensors:
        parts = " ".join(dict.fromkeys(name.partition(".")[0] for name in state))
        raise ModelError(f"init_param: {where} has nothing under the name {prefix!r}; it has: {parts}")
    return tensors


def _trained_config(path: Path) -> dict:
    """The configuration of a trained model, from the config.yaml in its directory, if any."""
    config_file = path.parent / "config.yaml"
    return load(config_file) if config_file.exists() else {}


class _Rows(NamedTuple):
    """The rows of known tokens: their places in the trained model and in the model, both (N,), and their
    dimension."""

    old: list[int]
    new: list[int]
    dim: int


def _token_parameters(model: nn.Module, target: str) -> dict[str, int]:
    """Parameters below the name `target` with a row for each token, and the dimension of these rows."""
    modules = dict(model.named_modules(remove_duplicate=False))
    excluded: set[nn.Module] = set()  # embeddings of tags, and of the tokens that a pretrained encoder has
    for module in modules.values():
        if isinstance(module, TaggedEmbedding):
            excluded.add(module.start)
        elif isinstance(module, BertFrontend):
            excluded.update(module.modules())
    token_dims = {}
    for full, module in modules.items():
        is_embedding = isinstance(module, nn.Embedding | LowRankEmbedding) and "position" not in full
        is_output = isinstance(module, nn.Linear | LowRankLinear) and f".{full}".endswith(_OUTPUT_LAYERS)
        if (is_embedding or is_output) and module not in excluded:
            dims = _TOKEN_DIM.get(type(module), {"weight": 0, "bias": 0})
            for name, _ in module.named_parameters(recurse=False):
                if name in dims and (not target or full.startswith(f"{target}.") or full == target):
                    token_dims[f"{full}.{name}".removeprefix(f"{target}.")] = dims[name]
    return token_dims


def _of_other_tokens(
    parameters: Mapping[str, Tensor], dims: Mapping[str, int], trained: tuple[str, Mapping], made: tuple[str, Mapping]
) -> dict[str, _Rows]:
    """Return the parameters with a row for each token whose vocabulary has other tokens or another order.

    Args:
        parameters: Parameters of the trained model.
        dims: Parameters with a row for each token, see `_token_parameters`.
        trained: The name that `parameters` was below, and the configuration of the trained model.
        made: The name that they are copied to, and the configuration of the model.
    """
    rows = {}
    for name in (name for name in parameters if name in dims):
        old, new = _tokens(name, *trained), _tokens(name, *made)
        if old is None or new is None or old == new or parameters[name].dim() == 0:
            continue
        if parameters[name].shape[dims[name]] == len(old):
            places = {token: row for row, token in enumerate(old)}
            known = [(places[token], row) for row, token in enumerate(new) if token in places]
            rows[name] = _Rows([row for row, _ in known], [row for _, row in known], dims[name])
    return rows


def _tokens(name: str, prefix: str, config: Mapping) -> list[str] | None:
    """The vocabulary of a parameter called `name` below `prefix`; None where the configuration has none."""
    full = f"{prefix}.{name}" if prefix else name
    of_source = full.startswith(_OF_SOURCE) and config.get("src_token_list") is not None
    tokens = config.get("src_token_list" if of_source else "token_list")
    return [str(token) for token in tokens] if isinstance(tokens, list) else None


def _known_rows(
    parameters: Mapping[str, Tensor], expected: Mapping[str, Tensor], rows: Mapping[str, _Rows]
) -> dict[str, Tensor]:
    """Parameters of the model with the rows of known tokens; those that the model lacks are left out."""
    filled = {}
    for name, (old, new, dim) in rows.items():
        if name not in expected or expected[name].dim() != parameters[name].dim():
            continue
        made, trained = expected[name].clone().movedim(dim, 0), parameters[name].movedim(dim, 0)
        if made.shape[1:] == trained.shape[1:]:
            made[new] = trained[old].to(made)
            filled[name] = made.movedim(0, dim)
            log.info("%s: rows of %d of %d tokens are those of the trained model", name, len(new), len(made))
    return filled


def _by_condition(
    part: nn.Module, parameters: dict[str, Tensor], known: Mapping[str, list[str]]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return `parameters` with rows in the order of `part`, and the faults of those for which that is not possible."""
    parameters, faults = dict(parameters), {}
    for name, conditions, labels in _condition_rows(part):
        if name not in parameters or not set(conditions) <= set(known):
            continue
        rows = list(product(*(known[condition] for condition in conditions)))
        missing = [label for label in labels if label not in rows]
        if missing:
            faults[name] = f"(knows no {' '.join(missing[0])}, but {abridged(map(' '.join, rows))})"
        elif len(parameters[name]) == len(rows):
            parameters[name] = parameters[name][[rows.index(label) for label in labels]]
    for name, module in part.named_modules():
        if isinstance(module, StaticSelection):
            for condition, families in module.names.items():
                if (known_families := known.get(condition, families)) != families:
                    faults[name] = f"(families of {condition} {' '.join(known_families)})"
    return parameters, faults


def _condition_rows(part: nn.Module) -> Iterator[tuple[str, list[str], list[Label]]]:
    """Parameters with a row for each value of conditions: their name, the conditions, and the label of each row."""
    for name, module in part.named_modules():
        if isinstance(module, LearnedSelection):
            for condition, names in module.names.items():
                yield f"{name}.logits_{condition}", [condition], [(value,) for value in names]
        if isinstance(module, Adapters):
            for parameter, _ in module.named_parameters():
                yield f"{name}.{parameter}", module.rows.by, module.rows.labels
        if isinstance(module, LowRank) and module.rows is not None:
            for parameter, _ in module.named_parameters():
                if parameter.startswith("lora_"):
                    yield f"{name}.{parameter}", module.rows.by, module.rows.labels
        if isinstance(module, TaggedEmbedding):
            yield f"{name}.start.weight", module.rows.by, module.rows.labels
