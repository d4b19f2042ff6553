"""Adopting a trained softmax model: the same weights in a model with another attention or with head selection.

SMA and SDMA mix the semantic mask in at a rate gamma that is 0 before the first update, so the adopted model first
computes the same as the trained one and changes as it is trained further. With head selection the pool contains copies
of the trained heads, in an order in which every language or domain selects each head once, at its former position;
noise and gradients then make the copies different. A start tag begins as the embedding of <sos/eos>.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.attention.selection.learned_selection import LearnedSelection
from espnet_diverse.data.output_paths import check_prepared
from espnet_diverse.decoding.options import MULTITASK
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.start_tag import TaggedEmbedding
from espnet_diverse.runs.condition_names import fill_in, has_parameters_by_condition, names_of_conditions
from espnet_diverse.runs.config import Config
from espnet_diverse.runs.config_checks import NETS, check
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.runs.packed.espnet_whisper import read_whisper, write_run
from espnet_diverse.runs.packed.run_files import write_model
from espnet_diverse.runs.tasks import TASKS, TRAINED, load_model, read_config
from espnet_diverse.runs.training_config import training_config
from espnet_diverse.scope import scope

_FIRST = 0.0, -2.302585092994046  # logits of the heads that a subset begins with, and of the others: log 1 and log 0.1

_SAMPLES, _FRAMES, _TOKENS = 16_000, 120, 12


@dataclass(frozen=True)
class Adopted:
    """A model that was adopted.

    Attributes:
        weights: Path of its weights.
        new: Number of parameters that the trained model does not have.
        difference: Largest absolute difference of the outputs of the two models, over all conditions.
    """

    weights: Path
    new: int
    difference: float


def adopt(
    model_dir: Path,
    output_dir: Path,
    changes: Config,
    data_dir: Path | None = None,
    model_file: str | Path | None = None,
) -> Adopted:
    """Write a model with the weights of a trained model and another configuration: config.yaml, weights, vocabulary,
    and train.yaml, the configuration for further training.

    Args:
        model_dir: Directory of the run, of this package or of ESPnet.
        output_dir: Directory to write to: a new or empty one, or one that `adopt` has written.
        changes: What changes in the configuration, such as `encoder_conf.attention`.
        data_dir: Data directory whose tables have the values of the conditions, for parts that depend on conditions.
        model_file: Weights, see `find_weights`.

    Raises:
        ConfigError: A net has no counterpart here, a change is wrong, or it changes the shape of a parameter or removes
            one, or `output_dir` is `model_dir`.
        DataError: A table of the data directory is missing or faulty, or `output_dir` has other files.
        ModelError: A file is missing or damaged, or the weights do not fit the configuration.
    """
    if output_dir.resolve() == model_dir.resolve():
        raise ConfigError(f"{output_dir}: is the directory of the model itself; give another one")
    check_prepared(output_dir, "adopt")
    if (whisper := read_whisper(model_dir / "config.yaml")) is not None:
        with TemporaryDirectory() as folder:
            write_run(whisper, find_weights(model_dir, model_file, whisper), Path(folder))
            return adopt(Path(folder), output_dir, changes, data_dir)
    before = read_config(model_dir / "config.yaml")
    task = before.get("task", "asr")
    weights = find_weights(model_dir, model_file, before)
    trained, _ = load_model(model_dir, weights, task=task)
    config = adopted_config(before, changes, data_dir)
    if changes and config == adopted_config(before, Config(), data_dir):
        raise ConfigError("the given configuration changes nothing of this model; give an attention or heads for it")
    _check_conditions(task, config)
    args = TASKS[task].get_parser().parse_args([])
    vars(args).update(config)
    model = TASKS[task].build_whole_model(args)
    new = adopt_weights(model, trained)
    conditions = names_of_conditions(config)
    if not has_parameters_by_condition(config):  # the values change what the decoder reads, and no computation
        conditions = {name: values[:1] for name, values in conditions.items()}
    difference = largest_difference(trained, model, task, conditions, config.get("input_size"))
    further = training_config(config) if task in TRAINED else None
    write_model(model, config, model_dir, output_dir / weights.name, "adopt", further)
    return Adopted(output_dir / weights.name, new, difference)


def adopted_config(before: dict, changes: Config, data_dir: Path | None = None) -> Config:
    """The configuration of a run with the nets of this package and `changes`; see `adopt`.

    Raises:
        ConfigError: A net has no counterpart here, or a change is wrong.
        DataError: A table of the data directory is missing or faulty.
    """
    _check_cores(before, changes)
    config, task = Config(), before.get("task", "asr")
    config.update(before | {"task": task, "model": "diverse"})
    for part, nets in NETS.items():
        if (name := config.get(part)) is not None and name not in nets:
            if f"diverse_{name}" not in nets:
                known = " ".join(net.removeprefix("diverse_") for net in nets)
                raise ConfigError(f"{part} {name!r} cannot be adopted; those that can: {known}")
            config[part] = f"diverse_{name}"
    config.extend(changes)
    if data_dir is not None:
        fill_in(config, data_dir, data_dir)
    changed = Config()
    changed.extend(changes)  # for the origins; ESPnet's configurations may have keys of other versions
    classes = (key.removesuffix("_conf") for key in changes)  # whose options change, such as frontend
    changed.update({key: config[key] for key in (*changes, *classes, *NETS, "model") if key in config})
    check(TASKS[task], changed)
    return config


def _check_conditions(task: str, config: Config) -> None:
    """Check that no part of a multitask model depends on conditions, which are the languages of its prompts."""
    if task in MULTITASK and (names := names_of_conditions(config)):
        has = f"the new configuration has parts that depend on {' and '.join(names)}"
        raise ConfigError(f"{has}, and a model of task {task} has its languages in prompts; leave these parts out")


def _check_cores(before: dict, changes: Config) -> None:
    """Check that a trained attention other than softmax keeps its core: no other core has its options and weights."""
    for section, part in product((f"{net}_conf" for net in NETS), ("attention", "cross_attention")):
        old, new = ((config.get(section) or {}).get(part) or {} for config in (before, changes))
        trained = old.get("core", "softmax")
        if trained != "softmax" and new.get("core", trained) != trained:
            has = f"{section}.{part} of the trained model is {trained}, and only softmax becomes {new['core']}"
            raise ConfigError(f"{changes.origin(section, part, 'core')}: {has}; give a model with softmax attention")


def adopt_weights(model: nn.Module, trained: nn.Module) -> int:
    """Copy the parameters of `trained` into `model`, and parameters of heads to all copies in a pool.

    Returns:
        Number of parameters that `trained` does not have.

    Raises:
        ConfigError: A parameter of `trained` is missing in `model`, or has another shape.
    """
    trained_state, state = trained.state_dict(), model.state_dict()
    pools = _pools(model)
    for name, value in trained_state.items():
        if name not in state:
            raise ConfigError(f"the trained model has {name}, which the new configuration does not use")
        value = value if name not in pools else _copies(value, *pools[name])
        if value.shape != state[name].shape:
            shapes = f"{tuple(value.shape)}, and {tuple(state[name].shape)} in the new configuration"
            raise ConfigError(f"the trained model has {name} with shape {shapes}; leave its size as it is")
        state[name] = value
    model.load_state_dict(state)
    for module in model.modules():
        _begin(module, model)
    return sum(value.numel() for name, value in model.named_parameters() if name not in trained_state)


def _pools(model: nn.Module) -> dict[str, tuple[int, Tensor]]:
    """By parameter of a pool of heads: the number of heads H, and the place (P,) of each head of the pool."""
    pools = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) and module.selection is not None:
            parts = ["linear_q", "linear_k", "linear_v", *(["linear_pos"] if module.relative else [])]
            parameters = [f"{part}.{key}" for part in parts for key, _ in getattr(module, part).named_parameters()]
            parameters += ["pos_bias_u", "pos_bias_v"] if module.relative else []
            pools |= {f"{name}.{parameter}": (module.h, module.selection.places()) for parameter in parameters}
    return pools


def _copies(value: Tensor, heads: int, places: Tensor) -> Tensor:
    """The rows of H heads, (H * D or H, ...), for each of P heads -> (P * D or P, ...)."""
    return value.unflatten(0, (heads, -1))[places].flatten(0, 1)


@torch.no_grad()
def _begin(module: nn.Module, model: nn.Module) -> None:
    """Make selection of a subset begin with the first H heads, and tags with the embedding of <sos/eos>."""
    if isinstance(module, LearnedSelection) and module.options.strategy == "subset":
        first, other = _FIRST
        for condition in module.names:
            start = torch.full((module.pool,), other)
            start[: module.heads] = first - torch.arange(module.heads) * 1e-3  # in this order by score, too
            module.set_logits(condition, start.expand(len(module.names[condition]), -1) / len(module.names))
        module.mark_start()
    if isinstance(module, TaggedEmbedding):
        module.start.weight.copy_(module.weight[model.sos].expand_as(module.start.weight))


@torch.no_grad()
def largest_difference(
    first: nn.Module, second: nn.Module, task: str, conditions: Mapping[str, Sequence[str]], features: int | None = None
) -> float:
    """Largest absolute difference of the log-probabilities of two models, in evaluation, over all conditions.

    A part that one of them lacks, such as CTC, is not compared. The result is infinite if one of them gives NaN. Both
    are left in evaluation mode. The seed is fixed, and the random state of the caller stays as it is.

    Args:
        first: A model.
        second: A model of the same task and vocabulary.
        task: "asr", "st", "mt", "lm", "cls", "electra", "s2t" or "s2t_ctc".
        conditions: Values of the conditions that either depends on; each value is tried.
        features: Number of features of a frame, for models of speech that read features.
    """
    largest = 0.0
    with torch.random.fork_rng(devices=[]):
        for index in range(max(map(len, conditions.values()), default=1)):
            ids = {name: torch.tensor([min(index, len(values) - 1)]) for name, values in conditions.items()}
            outputs = []
            for model in (first, second):
                torch.manual_seed(0)
                with scope(ids, collect=False):
                    outputs.append(_log_probabilities(model.eval(), task, features))
            for part in outputs[0].keys() & outputs[1].keys():
                one, other = outputs[0][part], outputs[1][part]
                differences = (one - other).abs().nan_to_num(inf, inf)
                largest = max(largest, float(differences.masked_fill(one == other, 0).max()))
    return largest


def _log_probabilities(model: nn.Module, task: str, features: int | None) -> dict[str, Tensor]:
    """Log-probabilities by part of a model, on random input."""
    if task == "electra":
        text = _random_tokens(model.classifier.embed.num_embeddings - 1)
        return {"detector": F.logsigmoid(model.classifier(text, torch.tensor([text.size(1)])))}
    if task == "cls":
        texts = [_random_tokens(model.classifier.embed.num_embeddings - 1) for _ in range(1 + model.classifier.pairs)]
        inputs = [tensor for text in texts for tensor in (text, torch.tensor([text.size(1)]))]
        return {"classifier": model.classifier(*inputs).scores.log_softmax(-1)}
    tokens = torch.cat([torch.tensor([[model.sos]]), _random_tokens(model.sos)], 1)
    if task == "lm":
        return {"lm": model.lm(tokens, None)[0].log_softmax(-1)}
    if task == "mt":
        source = _random_tokens(model.src_sos)
    else:
        source = torch.randn(1, _SAMPLES) if features is None else torch.randn(1, _FRAMES, features)
    prompt = _prompt(model) if task == "s2t_ctc" else {}
    frames, lengths = model.encode(source, torch.tensor([source.size(1)]), **prompt)[:2]
    frames = frames[0] if isinstance(frames, tuple) else frames  # with the frames of intermediate layers
    outputs = {}
    if getattr(model, "decoder", None) is not None:  # a model of CTC alone has none
        count = torch.tensor([tokens.size(1)])
        outputs["decoder"] = model.decoder(frames, lengths, tokens, count)[0].log_softmax(-1)
    modules = {name: getattr(model, name, None) for name in ("ctc", "st_ctc")}  # over the source, and the translation
    return outputs | {name: ctc.log_softmax(frames) for name, ctc in modules.items() if ctc is not None}


def _prompt(model: nn.Module) -> dict[str, Tensor]:
    """A random prompt of a model that reads it in its encoder: two symbols, and previous text."""
    tokens = _random_tokens(model.sos)
    prompt = {"text_prev": tokens, "prefix": tokens[:, :2]}
    return prompt | {f"{name}_lengths": torch.tensor([value.size(1)]) for name, value in prompt.items()}


def _random_tokens(last: int) -> Tensor:
    """Tokens that are neither special nor the last, <sos/eos>."""
    return torch.randint(min(2, last - 1), last, (1, _TOKENS))
