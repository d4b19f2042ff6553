"""Options that several commands share."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_diverse.bin.options.arguments import Arguments, add_options, argument, gathered, part
from espnet_diverse.bin.options.input_paths import DATA_DIR, TOKENS_DIR, InputPath
from espnet_diverse.conditions import CONDITIONS, values_by_condition
from espnet_diverse.cpu.machine import KERNELS, KERNELS_VARIABLE
from espnet_diverse.decoding.options import PRECISIONS, SAMPLING, SEARCHES, SearchOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, flag, path, text
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

if TYPE_CHECKING:
    from espnet_diverse.decoding.search.fusion import Fusion

SCORED_TASKS = ("asr", "st", "mt", "lm", "cls")
TASKS = (*SCORED_TASKS, "electra")
_HOTWORDS = InputPath("write the phrases to a file, one per line, and give its path", is_dir=False)
_SHORTLIST = InputPath("make it with espnet-diverse shortlist", is_dir=False)
_SEARCH_HELP = "each can also be given as --set KEY=VALUE or in a --config file; the command line overrides files"


class JoinFragments(argparse.Action):
    """Joins the fragments of all options --config in the order of the command line."""

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


@cache
def notice(text: str) -> None:
    """Print a line, once per process."""
    print(f"espnet-diverse: {text}", file=sys.stderr)


def add_config(parser: argparse._ActionsContainer, required: bool = True) -> None:
    """Declare --config and --set."""
    parser.add_argument(
        "--config",
        required=required,
        action=JoinFragments,
        default="",
        metavar="A,B,C",
        help="YAML files, or names in conf/ such as attention/sdma, merged left to right",
    )
    text = "change one value; can be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="KEY.SUB=VALUE", help=text)


def add_keep_features(parser: argparse.ArgumentParser) -> None:
    """Declare --keep_features, a short form of --set."""
    parser.add_argument(
        "--keep_features",
        action="append_const",
        dest="set",
        const="keep_features=float16",
        help="compute the features of a frozen encoder, or of a frozen pretrained frontend, once, and train on them "
        "instead of audio; the same as --set keep_features=float16 (or float32)",
    )


def add_init_param(parser: argparse.ArgumentParser) -> None:
    """Declare --init_param."""
    parser.add_argument(
        "--init_param",
        nargs="+",
        default=[],
        metavar="MODEL[:FROM[:TO[:EXCLUDED,...]]]",
        help="pretrained parameters to start from, for example exp/asr/valid.acc.ave.pth:encoder:encoder; MODEL is a "
        "file of weights, the directory of a run or a packed model, FROM and TO are parts of its model and of the new "
        "one, EXCLUDED are beginnings of names to leave out, joined by commas",
    )


class Data(Arguments):
    """The training data, the vocabulary and the task."""

    train_dir: Path = path(parse=DATA_DIR, help="data directory of the training set")
    valid_dir: Path = path(parse=DATA_DIR, help="data directory of the validation set")
    tokens_dir: Path = path(parse=TOKENS_DIR, help="vocabulary, from `espnet-diverse tokens`")
    src_tokens_dir: Path | None = path(
        None, parse=TOKENS_DIR, help="vocabulary of the source text src_text", shown="--tokens_dir"
    )
    task: str = choice(*TASKS, help="task of the model")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare the training data, the vocabulary and the task."""
    add_options(parser, Data)


class Model(Arguments):
    """A trained model."""

    model_dir: Path = path(
        positional=True,
        metavar="MODEL",
        help="directory of a run, a packed model, or hf:owner/name on the Hugging Face Hub",
    )
    model_file: str | None = text(
        None,
        metavar="FILE",
        help="weights, as a path or a name in the model directory",
        shown="valid.acc.ave.pth; for a language model valid.loss.ave.pth; if a run lacks it, the average by its first "
        "criterion",
    )

    @property
    def model(self) -> tuple[Path, str | None]:
        """The directory and the weights."""
        return self.model_dir, self.model_file


def add_model(parser: argparse.ArgumentParser, text: str | None = None) -> None:
    """Declare the options of `Model`; `text` is another help of MODEL."""
    add_options(parser, Model, texts={"model_dir": text} if text else None)


def add_output_dir(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare --output_dir, which is required; `text` is its help."""
    parser.add_argument("--output_dir", type=Path, required=True, help=text)


def _file(text: str) -> Path:
    """The path of a file to write; a directory is refused before any work is done."""
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory; give a file such as RESULTS.md")
    return Path(text)


class Results(Arguments):
    """The file of results that a command updates."""

    results: Path | None = path(
        None, parse=_file, metavar="FILE", help="RESULTS.md to update; rows of the same name are replaced"
    )


def row_name(folder: Path) -> str:
    """Name of a row of results: the last two parts of a folder."""
    return "/".join(folder.resolve().parts[-2:])


def add_search_options(parser: argparse.ArgumentParser, searches: Sequence[str] = SEARCHES, **defaults: object) -> None:
    """Declare the search options: every field of `SearchOptions`, --config and --set; `search_options` reads them.

    Args:
        parser: Parser of the command.
        searches: Search algorithms that the command supports.
        defaults: Defaults of the command that differ from those of `SearchOptions`.
    """
    group = parser.add_argument_group("search options", _SEARCH_HELP)
    for option in fields(SearchOptions):
        shown = defaults.get(option.name, option.metadata["rule"].shown or option.default)
        overrides = {"default": None} | ({"choices": searches} if option.name == "search" else {})
        group.add_argument(f"--{option.name}", **argument(option, letters=True, shown=shown) | overrides)
    add_config(group, required=False)


def search_options(args: argparse.Namespace, **defaults: object) -> SearchOptions:
    """The search options given by `add_search_options`.

    Args:
        args: Parsed arguments.
        defaults: As for `add_search_options`.

    Raises:
        ConfigError: A key or value is not allowed, or an option has one value by its name and another by --set; the
            message begins with the file and line, or the option, that the value comes from.
    """
    from espnet_diverse.runs.config import check_keys, located, merge

    names = [option.name for option in fields(SearchOptions)]
    changed, config = merge([], args.set), merge(fragments(args), args.set)
    check_keys(config, names)
    for name in names:
        value = getattr(args, name)
        if value is None:
            continue
        if name in changed and changed[name] != value:
            other = f"--set {name}={changed[name]}"
            raise ConfigError(f"--{name} {value} and {other} contradict each other; give one of them")
        config.add({name: value}, {(name,): f"--{name} {value}"})
    if args.hotword_weight is not None and getattr(args, "hotwords", None) is None:
        raise ConfigError(f"--hotword_weight {args.hotword_weight:g} needs hotwords; give --hotwords, or leave it out")
    with located(config):
        options = SearchOptions(**{**defaults, **config})
    for name in SAMPLING:
        if name in config and options.search != "sampling":
            raise ConfigError(f"{config.origin(name)}: {name} is for --search sampling; add that, or leave it out")
    return options


class FusionFiles(Arguments):
    """Files of a language model and hotwords."""

    GROUP = "language model and hotwords"

    lm: Path | None = path(
        None, metavar="MODEL", help="language model over the same tokens: a run, a packed model, or a KenLM file"
    )
    lm_file: str | None = text(
        None, metavar="FILE", help="its weights, a path or a name in its directory", shown="valid.loss.ave.pth"
    )
    hotwords: Path | None = path(None, parse=_HOTWORDS, metavar="FILE", help="phrases that get a bonus, one per line")


class TextFusionFiles(FusionFiles):
    """Files of a language model, hotwords and a shortlist."""

    GROUP = FusionFiles.GROUP

    shortlist: Path | None = path(
        None,
        parse=_SHORTLIST,
        metavar="FILE",
        help="lexical table, from `espnet-diverse shortlist`; a text is translated into the translations of its tokens "
        "and frequent tokens alone, which is faster",
    )


def fusion_inputs(files: FusionFiles) -> list[Path]:
    """Files of a language model, hotwords and a shortlist."""
    from espnet_diverse.runs.model_files import model_files

    named = [path for path in (files.lm, files.hotwords, shortlist_of(files)) if path is not None]
    is_run = files.lm is not None and files.lm.is_dir()
    return [*model_files(files.lm, files.lm_file, "lm"), *named[1:]] if is_run else named


def shortlist_of(files: FusionFiles) -> Path | None:
    """The shortlist, if the command has one."""
    return files.shortlist if isinstance(files, TextFusionFiles) else None


def fusion(files: FusionFiles) -> "Fusion":
    """The `Fusion` of a language model, hotwords and a shortlist; a packed language model is unpacked.

    Raises:
        ConfigError: --lm_file is given without --lm.
    """
    from espnet_diverse.decoding.search.fusion import Fusion
    from espnet_diverse.decoding.search.ngram import is_ngram
    from espnet_diverse.runs.packed.archive import unpacked

    if files.lm_file is not None and files.lm is None:
        raise ConfigError(f"--lm_file {files.lm_file} has no --lm; give the language model too")
    packed = files.lm is not None and not is_ngram(files.lm)
    return Fusion(unpacked(files.lm) if packed else files.lm, files.lm_file, files.hotwords, shortlist_of(files))


class Device(Arguments):
    """The device to compute on."""

    GROUP = "device options"

    device: str = text("cpu", metavar="cpu|cuda|cuda:N", help="device to compute on")
    kernels: str | None = choice(
        *KERNELS,
        none=True,
        help="library of the matrix products of linear layers on a CPU; auto measures once which is faster",
        shown=f"${KERNELS_VARIABLE}, or auto",
    )


class Computing(Device):
    """The device to compute on, and how."""

    GROUP = Device.GROUP

    precision: str = choice(*PRECISIONS, help="precision of linear layers; int8 only on the CPU")
    compile: bool = flag(help="compile the encoder layers first")

    @property
    def how(self) -> dict[str, Any]:
        """Keyword arguments of what loads a model."""
        return {"device": self.device, "precision": self.precision, "compile": self.compile}


class Segmented(Arguments):
    """Options of splitting recordings into segments of speech."""

    segmentation: SegmentationOptions = part(SegmentationOptions, "vad")


def add_segmentation(parser: argparse.ArgumentParser, names: Sequence[str] = ("vad",)) -> None:
    """Declare options of splitting recordings into segments of speech."""
    add_options(parser.add_argument_group("segmentation"), SegmentationOptions, *names)


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """Declare the options that give values of conditions."""
    group = parser.add_argument_group("conditions")
    for condition in CONDITIONS.values():
        group.add_argument(condition.option, metavar="NAME", help=condition.help)


class Conditions(Arguments):
    """Values by condition, from the options of `add_conditions`."""

    conditions: Mapping[str, str] = gathered(lambda args: values_by_condition(vars(args)))


class Configured(Arguments):
    """Fragments and changes of a configuration, from the options of `add_config`."""

    config: str
    set: Sequence[str]


class Searching(Configured):
    """The search, from the options of `add_search_options`: a function that returns its options, or raises an error."""

    searching: Callable[[], SearchOptions] = gathered(lambda args: partial(search_options, args))


def fragments(configured: Configured) -> list[str]:
    """Names given to --config."""
    return configured.config.split(",") if configured.config else []


def model_inputs(model: Model) -> list[Path]:
    """Files of a model."""
    from espnet_diverse.runs.model_files import model_files

    return model_files(model.model_dir, model.model_file)


def model_outputs(model: Model, output_dir: Path) -> list[Path]:
    """Configuration and weights of a model that is written to a directory."""
    return [output_dir / name for name in ("config.yaml", model_inputs(model)[1].name)]
