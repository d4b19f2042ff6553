"""ESPnet's tasks with our models, and strict loading; an import registers our classes in its tables."""

import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

import torch
from espnet2.layers.global_mvn import GlobalMVN
from espnet2.tasks import asr, lm, mt, s2t, s2t_ctc, st
from espnet2.tasks.abs_task import AbsTask
from espnet2.torch_utils.initialize import initialize
from espnet2.train.abs_espnet_model import AbsESPnetModel
from espnet2.train.class_choices import ClassChoices
from espnet2.utils.types import str2bool
from torch import nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, ModelError, prefixed
from espnet_diverse.nets import CLASSIFIERS, DETECTORS
from espnet_diverse.nets.building import bounded_by, without_values
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.models import DiverseClassificationModel, DiverseReplacedTokenModel, DiverseSTModel
from espnet_diverse.nets.no_position import remove_positions_of_frontend
from espnet_diverse.process_state import restored_handlers
from espnet_diverse.registration import with_globals
from espnet_diverse.registration.lazy_imports import explain_missing_transformers
from espnet_diverse.registration.transducer_loss import transducer_loss
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.condition_names import ConditionIndices, names_of_conditions
from espnet_diverse.runs.config import load, named_file
from espnet_diverse.runs.frontends import check_frontend, described, standalone
from espnet_diverse.runs.lora import add_adapter, check_whole
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.text.foreign_sentencepiece import check_model_file
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer
from espnet_diverse.untrusted.foreign_config import FILES_OF_TRAINING, check_config, named_files
from espnet_diverse.untrusted.whole_files import check_arrays, read_bytes

log = logging.getLogger(__name__)

PRETRAINED = "hugging_face"
"""ESPnet's type of tokens of a pretrained tokenizer, which is read from a single file."""


class _TaskMixin:
    """Methods that our tasks share; before a task of ESPnet in the bases. `training/loop/tasks.py` adds the trainer."""

    name: str

    @classmethod
    def add_task_arguments(cls, parser: ArgumentParser) -> None:
        """Declare ESPnet's arguments and ours; `task` is written to config.yaml for commands that read a run."""
        super().add_task_arguments(parser)
        parser.add_argument("--task", default=cls.name)
        parser.add_argument("--sampling", default=None)
        parser.add_argument("--compile", default=False)
        parser.add_argument("--repulsion", default=None)
        parser.add_argument("--keep_features", choices=(None, "float16", "float32"), default=None)
        parser.add_argument("--init_known_tokens", type=str2bool, default=False)
        parser.add_argument("--unfreeze_param", type=str, nargs="*", default=[])
        parser.add_argument("--save_interval_steps", type=int, default=0)

    @classmethod
    def optional_data_names(cls, train: bool = True, inference: bool = False) -> tuple[str, ...]:
        """ESPnet's names of optional data, and the conditions."""
        return (*super().optional_data_names(train, inference), *CONDITIONS)

    @classmethod
    def build_preprocess_fn(cls, args: Namespace, train: bool):
        """ESPnet's preprocessor; it also turns values of conditions into indices if the model depends on any.

        Raises:
            ConfigError: A key is missing or refused, or a package that the preprocessor needs is missing.
        """
        pretrained = [prefix for prefix in ("", "src_") if _reads_tokenizer(args, prefix)]
        # ESPnet's own tokenizer is a folder that may refer to code, so one of characters is built and replaced.
        instead = {f"{prefix}token_type": "char" for prefix in pretrained}
        try:
            preprocess = super().build_preprocess_fn(Namespace(**vars(args) | instead), train)
        except Exception as error:
            raise _unbuilt("preprocessor", error) from error
        for prefix in pretrained if preprocess is not None else ():
            tokenizer = PretrainedTokenizer(read_bytes(getattr(args, f"{prefix}bpemodel")))
            if isinstance(preprocess.tokenizer, list):  # one of each text
                preprocess.tokenizer[preprocess.text_name.index(f"{prefix}text")] = tokenizer
            else:
                preprocess.tokenizer = tokenizer
        names = names_of_conditions(vars(args))
        return ConditionIndices(preprocess, names) if names else preprocess

    @classmethod
    def build_model(cls, args: Namespace) -> AbsESPnetModel:
        """Build the model of a configuration, which gets the architectures of pretrained encoders.

        Raises:
            ConfigError: The constructor of a part refuses a value, or a package that it needs is missing.
        """
        check_frontend(vars(args))
        try:
            with transducer_loss():
                model = super().build_model(args)
        except Exception as error:  # of any class: constructors divide by values and index with them
            raise _unbuilt("model", error) from error
        remove_positions_of_frontend(model)
        if (frontend := getattr(model, "frontend", None)) is not None:
            args.frontend_conf = described(args.frontend_conf, frontend)
        return model

    @classmethod
    def build_whole_model(cls, args: Namespace) -> AbsESPnetModel:
        """Build the model of a configuration with its adapter.

        Raises:
            ConfigError: See `build_model` and `lora.add_adapter`.
        """
        model = cls.build_model(args)
        add_adapter(model, vars(args))
        return model

    @classmethod
    def build_model_from_file(cls, config_file=None, model_file=None, device: str = "cpu", config: dict | None = None):
        """Load a trained model strictly and safely.

        ESPnet's own loader accepts files with missing parameters, and runs code that a file may contain.

        Args:
            config_file: The config.yaml of a run; by default the one in the directory of `model_file`.
            model_file: Weights; None returns the model as it was initialised.
            device: "cpu" or "cuda".
            config: The configuration, where `read_config` has returned it before.

        Returns:
            The model and the arguments that it was trained with.

        Raises:
            ConfigError: The model cannot be built, see `build_whole_model`.
            ModelError: A file is missing or damaged, or the weights do not fit the configuration.
        """
        config_file = Path(config_file or Path(model_file).parent / "config.yaml")
        log.info("loading %s, %s", config_file, model_file)
        args = Namespace(**(config or read_config(config_file)))
        if model_file is None:
            with restored_handlers(), prefixed(config_file):
                return cls.build_whole_model(args).to(device), args
        state = checkpoint.load_weights(model_file)
        with restored_handlers(), prefixed(config_file), bounded_by(state, model_file), without_values():
            model = cls.build_whole_model(args)
        check_whole(vars(args), state, model, model_file)
        checkpoint.load_strict(model, state, model_file)
        return model.to(device), args


class ASRTask(_TaskMixin, asr.ASRTask):
    """Speech recognition."""

    name = "asr"


class _ESPnetST(st.STTask):
    """ESPnet's task of speech translation, which hard-codes the class of the model, with ours."""

    build_model = classmethod(with_globals(st.STTask.build_model.__func__, ESPnetSTModel=DiverseSTModel))


class STTask(_TaskMixin, _ESPnetST):
    """Speech translation."""

    name = "st"
    models = {"diverse": DiverseSTModel}

    @classmethod
    def add_task_arguments(cls, parser: ArgumentParser) -> None:
        """Declare the arguments of other tasks, and `model`, so that a fragment of conf/model works in every task."""
        super().add_task_arguments(parser)
        parser.add_argument("--model", default="diverse")


def source_table(config: Mapping) -> str:
    """Name of the table with the source text of a model of text translation; an autoencoder reads the text itself."""
    return "text" if config.get("model") == "vae" else "src_text"


class MTTask(_TaskMixin, mt.MTTask):
    """Text translation."""

    name = "mt"

    @classmethod
    def build_model(cls, args: Namespace) -> AbsESPnetModel:
        """Build the model as the other tasks do, with embeddings of variance 1 / width.

        Vaswani et al. 2017, "Attention is all you need", section 3.4, multiply embeddings by the square root of the
        width. ESPnet does so too, but draws them with variance 1: they would hide the positions, and when shared with
        the output layer would give an initial loss of tens of nats.

        Raises:
            ConfigError: As in the other tasks, or one of model and decoder is `flow` or `vae` and the other is not.
        """
        if (named := getattr(args, "decoder", None)) in ("flow", "vae") and args.model != named:
            raise ConfigError(f"decoder {named} does not fit model {args.model}; set model: {named}")
        model = super().build_model(args)
        embeddings = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
        with torch.no_grad():
            for weight in embeddings:
                weight.mul_(weight.size(1) ** -0.5)
        if isinstance(model.frontend, BertFrontend):  # after every initialisation, which would overwrite it
            model.frontend.load_pretrained()
        return model


class LMTask(_TaskMixin, lm.LMTask):
    """Language modelling."""

    name = "lm"


class _ClassificationTask(lm.LMTask):
    """ESPnet's task of language modelling, with a classifier instead of the language model.

    The first text of a pair, src_text, is read with the vocabulary of the second.
    """

    class_choices_list = [
        ClassChoices("classifier", CLASSIFIERS, default="self_attentive"),
        ClassChoices("model", {"diverse": DiverseClassificationModel}, AbsESPnetModel, default="diverse"),
    ]

    @classmethod
    def optional_data_names(cls, train: bool = True, inference: bool = False) -> tuple[str, ...]:
        """The first text of a pair."""
        return ("src_text",)

    @classmethod
    def build_preprocess_fn(cls, args: Namespace, train: bool):
        """ESPnet's preprocessor, for both texts of a pair."""
        built = super().build_preprocess_fn(args, train)
        return built if built is None else _BothTexts(built)

    @classmethod
    def build_model(cls, args: Namespace) -> AbsESPnetModel:
        """Build the model of a configuration, whose vocabulary becomes part of it."""
        if isinstance(args.token_list, str):
            with Path(args.token_list).open(encoding="utf-8") as file:
                args.token_list = [line.rstrip() for line in file]  # as in ESPnet's tasks
        classifiers, models = cls.class_choices_list
        net = classifiers.get_class(args.classifier)(len(args.token_list), **args.classifier_conf)
        model = models.get_class(args.model)(net, **args.model_conf)
        if args.init is not None:
            initialize(model, args.init)
        return model


class _PretrainingTask(_ClassificationTask):
    """ESPnet's task of language modelling, with the pretraining of a classifier instead of the language model."""

    class_choices_list = [
        ClassChoices("classifier", DETECTORS, default="transformer"),
        ClassChoices("model", {"diverse": DiverseReplacedTokenModel}, AbsESPnetModel, default="diverse"),
    ]


class _BothTexts:
    """ESPnet's preprocessor of one text, applied to the two texts of a pair."""

    def __init__(self, preprocess):
        self.preprocess = preprocess

    def __call__(self, utterance: str, data: dict) -> dict:
        """Data of one utterance by name, whose texts become indices of tokens, (T,) int64 each."""
        return {name: self.preprocess(utterance, {"text": text})["text"] for name, text in data.items()}


class CLSTask(_TaskMixin, _ClassificationTask):
    """Classification of text, or of pairs of texts."""

    name = "cls"


class ElectraTask(_TaskMixin, _PretrainingTask):
    """Pretraining of a text classifier."""

    name = "electra"


class S2TTask(_TaskMixin, s2t.S2TTask):
    """Multitask speech to text."""

    name = "s2t"


class S2TCTCTask(_TaskMixin, s2t_ctc.S2TTask):
    """Multitask speech to text by CTC alone."""

    name = "s2t_ctc"


_TASKS = (ASRTask, STTask, MTTask, LMTask, CLSTask, ElectraTask, S2TTask, S2TCTCTask)
TASKS: dict[str, type[AbsTask]] = {task.name: task for task in _TASKS}
TRAINED = ("asr", "st", "mt", "lm", "cls", "electra")
"""Tasks that `espnet-diverse train` trains; models of the others come from ESPnet."""


def load_model(model_dir: str | Path, model_file: str | Path | None = None, device: str = "cpu", task: str = "asr"):
    """Load the model of a run; works from any working directory.

    Args:
        model_dir: Directory of the run; it may have been moved.
        model_file: Weights, see `find_weights`.
        device: "cpu" or "cuda".
        task: Name of the task, a key of `TASKS`.

    Returns:
        The model, in training mode as ESPnet builds it, or with an adapter (`use_adapter`) in evaluation, and the
        arguments that it was trained with.

    Raises:
        ModelError: A file is missing or damaged, or the weights do not fit the configuration.
    """
    folder = Path(model_dir)
    config = read_config(config_file := folder / "config.yaml")
    weights = find_weights(folder, model_file, config)
    return TASKS[task].build_model_from_file(config_file, weights, device, config)


def _reads_tokenizer(args: Namespace, prefix: str) -> bool:
    """Return whether tokens are those of a tokenizer.json; ESPnet's own are of a folder or a name."""
    path = getattr(args, f"{prefix}bpemodel", None)
    return getattr(args, f"{prefix}token_type", None) == PRETRAINED and path is not None and Path(path).is_file()


def _unbuilt(part: str, error: Exception) -> Exception:
    """The error of a part that cannot be built: our own errors unchanged, others in one line."""
    if isinstance(error, ConfigError | ModelError):
        return error
    message = " ".join(str(error).split()) or "a part of it refuses a value; --debug shows which"
    if isinstance(error, AttributeError) and isinstance(error.obj, Namespace):
        message = f"it has no {error.name}"
    if isinstance(error, ImportError):
        message = explain_missing_transformers(message)
    return ConfigError(f"the {part} of this configuration cannot be built: {message}")


def read_config(config_file: Path) -> dict:
    """Read the config.yaml of a run, see `config.load`, and locate the files that it names, see `named_file`.

    Files that only its training read are left out: a model from elsewhere could name any file of this machine.

    Raises:
        ModelError: config.yaml or a file that it names is missing, or is refused; see `foreign_config`.
    """
    config = load(config_file)
    check_config(config, config_file, packed=False)
    config |= {key: None for key in FILES_OF_TRAINING if key in config}
    for section, key in named_files(config):
        section[key] = str(named_file(section[key], key, config_file))
    if statistics := (config.get("normalize_conf") or {}).get("stats_file"):
        _check_statistics(statistics)
    for prefix in ("", "src_"):  # ESPnet opens these files itself
        if config.get(f"{prefix}token_type") == "bpe" and config.get(f"{prefix}bpemodel"):
            check_model_file(Path(config[f"{prefix}bpemodel"]))
    if config.get("frontend_conf"):
        config["frontend_conf"] = standalone(config, config_file)
    return config


def _check_statistics(path: str) -> None:
    """Refuse statistics that are too large before ESPnet reads them, and those that it cannot read."""
    try:
        check_arrays(path)
        GlobalMVN(path)
    except Exception as error:  # of any class: of zip files, of compression, of numpy, of memory
        message = getattr(error, "strerror", None) or "damaged"
        raise ModelError(f"{path}: {message}; copy the statistics of the model again") from error
