"""Options that several commands share."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options.input_paths import DATA_DIR, TOKENS_DIR, InputPath
from espnet_diverse.bin.options.kernels_option import add_kernels
from espnet_diverse.conditions import CONDITIONS, values_by_condition
from espnet_diverse.decoding.options import PRECISIONS, SAMPLING, SEARCHES, Options
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import argument

if TYPE_CHECKING:
    from espnet_diverse.decoding.search.fusion import Fusion

TASKS = ("asr", "st", "mt", "lm", "cls")
_HOTWORDS = InputPath("write the phrases to a file, one per line, and give its path", is_dir=False)
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


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare the training data, the vocabulary and the task."""
    parser.add_argument("--train_dir", type=DATA_DIR, required=True, help="data directory of the training set")
    parser.add_argument("--valid_dir", type=DATA_DIR, required=True, help="data directory of the validation set")
    parser.add_argument("--tokens_dir", type=TOKENS_DIR, required=True, help="vocabulary, from `espnet-diverse tokens`")
    parser.add_argument(
        "--src_tokens_dir", type=TOKENS_DIR, help="vocabulary of the source text src_text (default: --tokens_dir)"
    )
    parser.add_argument("--task", choices=TASKS, default="asr", help="task of the model (default: asr)")


def run_data(args: argparse.Namespace):
    """The `RunData` given by the options of `add_data`."""
    from espnet_diverse.training.data.run_data import RunData

    return RunData(args.train_dir, args.valid_dir, args.tokens_dir, args.task, args.src_tokens_dir)


def add_model(
    parser: argparse.ArgumentParser,
    text: str = "directory of a run, a packed model, or hf:owner/name on the Hugging Face Hub",
) -> None:
    """Declare a trained model: MODEL and --model_file.

    Args:
        parser: Parser of the command.
        text: Help of MODEL.
    """
    parser.add_argument("model_dir", type=Path, metavar="MODEL", help=text)
    parser.add_argument(
        "--model_file",
        metavar="FILE",
        help="weights, as a path or a name in the model directory (default: valid.acc.ave.pth; for a language model "
        "valid.loss.ave.pth; if a run lacks it, the average by its first criterion)",
    )


def add_output_dir(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare --output_dir, which is required; `text` is its help."""
    parser.add_argument("--output_dir", type=Path, required=True, help=text)


def add_results(parser: argparse._ActionsContainer) -> None:
    """Declare --results."""
    text = "RESULTS.md to update; rows of the same name are replaced"
    parser.add_argument("--results", type=_file, metavar="FILE", help=text)


def row_name(folder: Path) -> str:
    """Name of a row of results: the last two parts of a folder."""
    return "/".join(folder.resolve().parts[-2:])


def _file(text: str) -> Path:
    """The path of a file to write; a directory is refused before any work is done."""
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory; give a file such as RESULTS.md")
    return Path(text)


def add_search_options(parser: argparse.ArgumentParser, searches: Sequence[str] = SEARCHES, **defaults: object) -> None:
    """Declare the search options: every field of `Options`, --config and --set; `search_options` reads them.

    Args:
        parser: Parser of the command.
        searches: Search algorithms that the command supports.
        defaults: Defaults of the command that differ from those of `Options`.
    """
    group = parser.add_argument_group("search options", _SEARCH_HELP)
    for option in fields(Options):
        declaration = argument(option, defaults.get(option.name))
        if option.name == "search":
            declaration["choices"] = searches
        group.add_argument(f"--{option.name}", **declaration)
    add_config(group, required=False)


def search_options(args: argparse.Namespace, **defaults: object) -> Options:
    """The search options given by `add_search_options`.

    Args:
        args: Parsed arguments.
        defaults: As for `add_search_options`.

    Raises:
        ConfigError: A key or value is not allowed, or an option has one value by its name and another by --set; the
            message begins with the file and line, or the option, that the value comes from.
    """
    from espnet_diverse.runs.config import check_keys, located, merge

    names = [option.name for option in fields(Options)]
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
    with located(config):
        options = Options(**{**defaults, **config})
    for name in SAMPLING:
        if name in config and options.search != "sampling":
            raise ConfigError(f"{config.origin(name)}: {name} is for --search sampling; add that, or leave it out")
    return options


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Declare how a data directory is decoded: search options, conditions, processes and the device."""
    add_search_options(parser)
    add_conditions(parser)
    parser.add_argument("--nj", type=int, default=1, help="number of processes on the CPU (default: 1)")
    add_device_options(parser)


def add_fusion(parser: argparse.ArgumentParser) -> None:
    """Declare a language model and hotwords; `fusion` reads them."""
    group = parser.add_argument_group("language model and hotwords")
    group.add_argument(
        "--lm",
        type=Path,
        metavar="MODEL",
        help="language model over the same tokens: a run, a packed model, or a KenLM file",
    )
    group.add_argument(
        "--lm_file", metavar="FILE", help="its weights, a path or a name in its directory (default: valid.loss.ave.pth)"
    )
    group.add_argument("--hotwords", type=_HOTWORDS, metavar="FILE", help="phrases that get a bonus, one per line")


def fusion_inputs(args: argparse.Namespace) -> list[Path]:
    """Files that the options of `add_fusion` name."""
    from espnet_diverse.runs.model_files import model_files

    named = [path for path in (args.lm, args.hotwords) if path is not None]
    is_run = args.lm is not None and args.lm.is_dir()
    return [*model_files(args.lm, args.lm_file, "lm"), *named[1:]] if is_run else named


def fusion(args: argparse.Namespace) -> "Fusion":
    """The `Fusion` given by the options of `add_fusion`; a packed language model is unpacked.

    Raises:
        ConfigError: --lm_file is given without --lm.
    """
    from espnet_diverse.decoding.search.fusion import Fusion
    from espnet_diverse.decoding.search.ngram import is_ngram
    from espnet_diverse.runs.packed.archive import unpacked

    if args.lm_file is not None and args.lm is None:
        raise ConfigError(f"--lm_file {args.lm_file} has no --lm; give the language model too")
    packed = args.lm is not None and not is_ngram(args.lm)
    return Fusion(unpacked(args.lm) if packed else args.lm, args.lm_file, args.hotwords)


def add_device_options(parser: argparse.ArgumentParser, precision: bool = True) -> None:
    """Declare the device options, with --precision and --compile if `precision`; `device` reads the device."""
    group = parser.add_argument_group("device options")
    group.add_argument("--device", default="cpu", metavar="cpu|cuda|cuda:N", help="device to compute on (default: cpu)")
    add_kernels(group)
    if precision:
        group.add_argument(
            "--precision",
            choices=PRECISIONS,
            default="float32",
            help="precision of linear layers; int8 only on the CPU (default: float32)",
        )
        group.add_argument("--compile", action="store_true", help="compile the encoder layers first")


def add_segmentation_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the options of splitting recordings into segments of speech, and return their group."""
    from espnet_diverse.transcription.segmentation_options import VADS

    group = parser.add_argument_group("segmentation")
    group.add_argument(
        "--vad",
        choices=VADS,
        default="auto",
        help="voice activity detector: silero (extra vad), energy, none (split by length alone), or auto: silero, else "
        "energy, and no splitting of recordings of up to 20 s, nor by OWSM-CTC of longer ones (default: auto)",
    )
    return group


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """Declare the options that give values of conditions; `conditions` reads them."""
    group = parser.add_argument_group("conditions")
    for condition in CONDITIONS.values():
        group.add_argument(condition.option, metavar="NAME", help=condition.help)


def conditions(args: argparse.Namespace) -> dict[str, str]:
    """Values by condition, from the options of `add_conditions`."""
    return values_by_condition(vars(args))


def fragments(args: argparse.Namespace) -> list[str]:
    """Names given to --config."""
    return args.config.split(",") if args.config else []


def model_inputs(args: argparse.Namespace) -> list[Path]:
    """Files of the model that `add_model` declares."""
    from espnet_diverse.runs.model_files import model_files

    return model_files(args.model_dir, args.model_file)


def model_outputs(args: argparse.Namespace) -> list[Path]:
    """Configuration and weights of a model that is written to --output_dir."""
    return [args.output_dir / name for name in ("config.yaml", model_inputs(args)[1].name)]


def decoding_inputs(args: argparse.Namespace) -> list[Path]:
    """Files of the search options and the model, and --data_dir."""
    from espnet_diverse.runs.config import find

    return [*find(fragments(args)), *model_inputs(args), args.data_dir]


def data_inputs(args: argparse.Namespace) -> list[Path]:
    """Files and directories given by the options of `add_config` and `add_data`."""
    from espnet_diverse.runs.config import find

    folders = filter(None, (args.tokens_dir, args.src_tokens_dir))
    tokens = [folder / name for folder in folders for name in ("tokens.txt", "tokens.yaml")]
    return [*find(fragments(args)), args.train_dir, args.valid_dir, *tokens]


def stats_files(stats_dir: Path, task: str) -> list[Path]:
    """Files that the statistics stage writes and training needs."""
    texts = {"mt": ("text_shape", "src_text_shape"), **dict.fromkeys(("lm", "cls"), ("text_shape",))}
    names = texts.get(task, ("speech_shape", "feats_stats.npz"))
    return [stats_dir / phase / name for phase in ("train", "valid") for name in names]
