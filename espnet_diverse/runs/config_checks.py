"""Checks of a configuration before anything is built: names of keys and classes, options of the parts of our nets."""

import inspect
import re
from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from itertools import product

from espnet2.asr.ctc import CTC
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
from espnet2.asr.encoder.e_branchformer_ctc_encoder import EBranchformerCTCEncoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from espnet2.tasks import abs_task

from espnet_diverse.attention import PARTS, core_class, core_options
from espnet_diverse.attention.head_patterns import are_by_layer
from espnet_diverse.contrib.flowseq import FlowOptions
from espnet_diverse.contrib.vae import LatentOptions
from espnet_diverse.contrib.vae.model import BoundOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS, LANGUAGE_MODELS, PROMPTED_ENCODERS
from espnet_diverse.nets.adapters.bottleneck import AdapterOptions
from espnet_diverse.nets.classification.transformer_classifier import TransformerClassifier
from espnet_diverse.nets.condition_rows import read_options
from espnet_diverse.nets.losses.consistency import ConsistencyOptions
from espnet_diverse.nets.memory import MEMORIES, memory_options, source_memory_options
from espnet_diverse.nets.replace_attention import read_layers
from espnet_diverse.nets.start_tag import StartTagOptions
from espnet_diverse.option_checks import read as read_dataclass
from espnet_diverse.runs.config import NONE, Config, check_keys, located
from espnet_diverse.runs.frontends import check_frontend
from espnet_diverse.runs.lora import check_adapter
from espnet_diverse.runs.tasks import TASKS, TRAINED
from espnet_diverse.runs.training_config import FILLED_IN

NETS = {"encoder": ENCODERS | PROMPTED_ENCODERS, "decoder": DECODERS, "lm": LANGUAGE_MODELS}
"""Our nets by part of a model and name."""


def check(task: type[abs_task.AbsTask], config: Config) -> None:
    """Check the names of keys and classes, and the options of our parts of the nets, before anything is built.

    Raises:
        ConfigError: A key is unknown to the task or to the class that it configures, a class is unknown, or an option
            has a wrong value or needs a package that is not installed.
    """
    parser = task.get_parser()
    known = vars(parser.parse_args([]))
    _check_task(config, known)
    check_keys(config, known)
    with located(config, "frontend"):
        check_frontend(config)
    classes = chosen_classes(task, config)
    for name, chosen in classes.items():
        _check_owner(config, name, chosen)
        _check_section(config, f"{name}_conf", chosen)
        _check_values(config, f"{name}_conf", chosen)
        if chosen.__module__.startswith("espnet_diverse."):
            _check_parts(config, f"{name}_conf")
    _check_section(config, "ctc_conf", CTC)
    _check_model(config, classes.get("model"))
    check_adapter(config)
    _check_choices(config, parser)
    if config.get("use_wandb") and find_spec("wandb") is None:
        needed = "use_wandb needs the package wandb: pip install 'espnet_diverse[wandb]'"
        raise ConfigError(f"{config.origin('use_wandb')}: {needed}")


def _check_task(config: Config, known: Mapping) -> None:
    """Check that a configuration has no keys that only other tasks have."""
    for key in config:
        if key in known:
            continue
        tasks = [name for name in TRAINED if key in vars(TASKS[name].get_parser().parse_args([]))]
        if tasks:
            has = f"key {key!r} is not one of the task given, but of {' '.join(tasks)}"
            raise ConfigError(f"{config.origin(key)}: {has}; give another --task, or the fragments of this one")


def _check_choices(config: Config, parser: ArgumentParser) -> None:
    """Check the values of keys that are one of several words; keys of classes and of our batches have own checks."""
    for action in parser._actions:
        key = action.dest
        if not action.choices or key not in config or key in FILLED_IN or key.endswith("batch_type"):
            continue
        value, known = config[key], [str(word) for word in action.choices if word is not None]
        is_unset = value is None or None in action.choices and str(value).strip().lower() in NONE
        if not is_unset and str(value).lower() not in map(str.lower, known):
            message = f"{key} must be one of {' '.join(known)}, but is {value!r:.100}"
            raise ConfigError(f"{config.origin(key)}: {message}")


def _check_owner(config: Config, name: str, chosen: type) -> None:
    """Check that options of our nets are not given to another net, for example without the fragment of the model."""
    section = f"{name}_conf"
    if chosen.__module__.startswith("espnet_diverse.") or not isinstance(config.get(section), dict):
        return
    for part in _PARTS:
        if part in config[section] and part not in inspect.signature(chosen).parameters:
            actual = f"{name} is {config[name]!r}" if name in config else f"no {name} is given"
            has = f"key {section}.{part} is for a net of this package, and {actual}"
            ours = f"diverse_{str(config.get(name)).lower()}"
            known = ours in NETS.get(name, ())
            todo = f"give {name}: {ours}" if known else "put a fragment with our net before it, such as model/small"
            raise ConfigError(f"{config.origin(section, part)}: {has}; {todo}")


def _check_model(config: Config, model: type | None) -> None:
    """Check that a model of ESPnet, if one is named, has no parts with losses, which it would silently leave out."""
    if "model" not in config or model is None or model.__module__.startswith("espnet_diverse."):
        return
    for net, part in product(NETS, (*_ATTENTIONS, *_MEMORIES)):
        options = (config.get(f"{net}_conf") or {}).get(part)
        if options and _has_losses(part, options):
            has = f"model {config['model']!r} leaves out the losses of {net}_conf.{part}"
            raise ConfigError(f"{config.origin('model')}: {has}; set model: diverse")


def _has_losses(part: str, options: Mapping) -> bool:
    if part in _MEMORIES:
        return bool(MEMORIES[options["kind"]].LOSSES)
    of_core = core_class(options.get("core", "softmax")).LOSSES
    return bool(of_core or options.get("disagreement") or options.get("routing"))


def chosen_classes(task: type[abs_task.AbsTask], config: Config) -> dict[str, type]:
    """Return the classes of the parts of a model and its training, such as encoder and optim, by name of the part.

    Raises:
        ConfigError: The configuration names an unknown class.
    """
    by_part = {}
    for name, (classes, default) in _choices(task).items():
        chosen = config.get(name, default)
        if chosen is None:
            continue
        if not isinstance(chosen, str) or chosen.lower() not in classes:
            known = " ".join(sorted(classes))
            tasks = [other for other in TRAINED if str(chosen).lower() in _choices(TASKS[other]).get(name, [{}])[0]]
            todo = f"; for this one give --task {' or '.join(tasks)}" if tasks else ""
            raise ConfigError(f"{config.origin(name)}: unknown {name} {chosen!r}; known: {known}{todo}")
        by_part[name] = classes[chosen.lower()]
    return by_part


def doubts(task: type[abs_task.AbsTask], config: Config) -> list[str]:
    """Return warnings about a configuration: ESPnet's default optimizer, and options that ESPnet's nets do not use."""
    nets = chosen_classes(task, config)
    sections = [f"{name}_conf" for name in sorted(nets) if issubclass(nets[name], _KEEPING)]
    has = "layer_drop_rate has no effect, as this net of ESPnet drops no layers"
    affected = [section for section in sections if (config.get(section) or {}).get("layer_drop_rate")]
    unused = [f"{config.origin(section, 'layer_drop_rate')}: {section}.{has}" for section in affected]
    return unused if "optim" in config else [_NO_OPTIM, *unused]


def _choices(task: type[abs_task.AbsTask]) -> dict[str, tuple]:
    """The classes by name, and the name of the default, of each part that a configuration chooses."""
    tables = {choices.name: (choices.classes, choices.default) for choices in task.class_choices_list}
    if models := getattr(task, "models", None):  # ST, for which ESPnet has no choice of models
        tables["model"] = (models, "diverse")
    # The step of LBFGS needs a function that computes the loss again, which no trainer of ESPnet passes.
    tables["optim"] = ({name: cls for name, cls in abs_task.optim_classes.items() if name != "lbfgs"}, "adadelta")
    tables["scheduler"] = (abs_task.scheduler_classes, None)
    return tables


def _check_section(config: Config, section: str, cls: type) -> None:
    parameters = inspect.signature(cls).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_keys(config, parameters, section)


def _check_values(config: Config, section: str, cls: type) -> None:
    """Check options of ESPnet's nets that take one of several names: the names that the constructor compares with."""
    for option in _NAMED:
        value = (config.get(section) or {}).get(option)
        if not isinstance(value, str):
            continue
        known = [*_compared(cls, option), *getattr(cls, "own_values", {}).get(option, ())]
        if known and value not in known:
            message = f"unknown {section}.{option} {value!r} of {cls.__name__}; known: {' '.join(known)}"
            raise ConfigError(f"{config.origin(section, option)}: {message}")


def _compared(cls: type, option: str) -> list[str]:
    """The names that the constructor of a class, or of a base class, compares an option with."""
    constructors = (vars(base).get("__init__") for base in cls.__mro__)
    sources = (inspect.getsource(inspect.unwrap(method)) for method in constructors if inspect.isfunction(method))
    return sorted({name for source in sources for name in re.findall(rf'\b{option} == "([\w-]+)"', source)})


def _check_parts(config: Config, section: str) -> None:
    """Check the options of the parts of one of our nets or models, for example of `encoder_conf.attention`."""
    for part, read in _PARTS.items():
        options = (config.get(section) or {}).get(part)
        if options is None:
            continue
        with located(config, section, part):
            if not isinstance(options, dict):
                raise ConfigError(f"{options!r} is not a mapping of options")
            read(options)
        for name, read_part in PARTS.items() if part in _ATTENTIONS else ():
            if options.get(name) is not None:
                with located(config, section, part, name):
                    by_layer = name == "head_patterns" and are_by_layer(options[name])
                    for part_options in options[name] if by_layer else [options[name]]:
                        read_part(part_options)


def _read_attention(options: dict) -> None:
    read_layers(options.get("layers"))
    of_core = {name: value for name, value in options.items() if name not in ("core", "layers", *PARTS)}
    core_options(options.get("core", "softmax"), of_core)


_NAMED = ("input_layer", "pos_enc_layer_type", "positionwise_layer_type", "selfattention_layer_type")
_NO_OPTIM = (
    "no optim is given, so it is ESPnet's default, Adadelta with a learning rate of 1; recipes name another, "
    "by --config update/adam_inverse_sqrt_800 for example"
)
_KEEPING = (TransformerEncoder, ConformerEncoder, EBranchformerCTCEncoder, TransformerDecoder, TransformerClassifier)
"""Nets that go through their layers one by one, where ESPnet's `layer_drop_rate` is not read."""
_ATTENTIONS = ("attention", "cross_attention")
_MEMORIES = ("memory", "cross_memory")


_PARTS = {
    **dict.fromkeys(_ATTENTIONS, _read_attention),
    "adapter": partial(read_options, AdapterOptions, "adapter"),
    "start_tag": partial(read_options, StartTagOptions, "start_tag"),
    "flow": partial(read_dataclass, FlowOptions, owner="flow"),
    "latent": partial(read_dataclass, LatentOptions, owner="latent"),
    "bound": partial(read_dataclass, BoundOptions, owner="bound"),
    "memory": memory_options,
    "cross_memory": source_memory_options,
    "consistency": partial(read_dataclass, ConsistencyOptions, owner="consistency"),
}
"""Parts of our nets and models that have options, and the functions that read them."""
