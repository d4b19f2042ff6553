"""Options that several commands share."""

import argparse
from pathlib import Path

from espnet_diverse.conditions import CONDITIONS, given

TASKS = ("asr", "st", "mt", "lm")


def add_config(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Declare --config and --set."""
    parser.add_argument(
        "--config",
        required=required,
        default="",
        metavar="A,B,C",
        help="YAML files, or names in conf/ such as attention/sdma; merged left to right",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY.SUB=VALUE", help="change one value; may be repeated"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare the data and the vocabulary that a model is trained with, and the task."""
    parser.add_argument("--train_dir", type=Path, required=True, help="data directory to train with")
    parser.add_argument("--valid_dir", type=Path, required=True, help="data directory to validate with")
    parser.add_argument("--tokens_dir", type=Path, required=True, help="vocabulary, from `espnet-diverse tokens`")
    parser.add_argument(
        "--src_tokens_dir", type=Path, help="vocabulary of what is translated, src_text (default: that of the text)"
    )
    parser.add_argument("--task", choices=TASKS, default="asr", help="what the model does (default: asr)")


def run_data(args: argparse.Namespace):
    """What the options of `add_data` name, a `RunData`."""
    from espnet_diverse.training.run_data import RunData

    return RunData(args.train_dir, args.valid_dir, args.tokens_dir, args.task, args.src_tokens_dir)


def add_model_file(parser: argparse.ArgumentParser, default: str | None = "valid.acc.ave.pth") -> None:
    """Declare --model_file, which `model_inputs` and `find_weights` look for; no default leaves it to the task."""
    shown = default or "that of its task"
    parser.add_argument("--model_file", default=default, help=f"path or name in model_dir (default: {shown})")


def add_gpu(parser: argparse.ArgumentParser, does: str) -> None:
    """Declare --ngpu of a command that takes one GPU and `does` something on it."""
    parser.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help=f"1 {does}s on the GPU (default: 0)")


def add_search(parser: argparse.ArgumentParser, does: str) -> None:
    """Declare how a data directory is decoded; `does` is the word for it, such as "decode"."""
    add_config(parser, required=False)
    add_conditions(parser)
    parser.add_argument("--nj", type=int, default=1, help=f"processes to {does} with on the CPU (default: 1)")
    add_gpu(parser, does)
    add_precision(parser)


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """Declare the options that give values of conditions; `conditions` reads them."""
    for condition in CONDITIONS.values():
        parser.add_argument(condition.option, metavar="NAME", help=condition.help)


def conditions(args: argparse.Namespace) -> dict[str, str]:
    """Values by condition that the options of `add_conditions` were given."""
    return given(vars(args))


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Declare --precision and --compile."""
    from espnet_diverse.decoding.options import PRECISIONS

    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="what linear maps compute in; int8 on the CPU alone (default: float32)",
    )
    parser.add_argument("--compile", action="store_true", help="compile encoder layers before the work begins")


def fragments(args: argparse.Namespace) -> list[str]:
    """Names given to --config."""
    return args.config.split(",") if args.config else []


def model_inputs(args: argparse.Namespace) -> list[Path]:
    """What --model_dir and the option of `add_model_file` name."""
    config = args.model_dir / "config.yaml"
    if args.model_file is None:
        return [config]
    named = args.model_dir / args.model_file
    return [config, named if named.exists() else Path(args.model_file)]


def search_inputs(args: argparse.Namespace) -> list[Path]:
    """What the options of `add_search`, the model and --data_dir name."""
    from espnet_diverse.training.config import find

    return [*find(fragments(args)), *model_inputs(args), args.data_dir]


def data_inputs(args: argparse.Namespace) -> list[Path]:
    """What the options of `add_config` and `add_data` name."""
    from espnet_diverse.training.config import find

    folders = [args.tokens_dir, *([args.src_tokens_dir] if args.src_tokens_dir else [])]
    tokens = [folder / name for folder in folders for name in ("tokens.txt", "tokens.yaml")]
    return [*find(fragments(args)), args.train_dir, args.valid_dir, *tokens]


def stats_files(stats_dir: Path, task: str) -> list[Path]:
    """What the statistics stage writes and training needs."""
    texts = {"mt": ("text_shape", "src_text_shape"), "lm": ("text_shape",)}
    names = texts.get(task, ("speech_shape", "feats_stats.npz"))
    return [stats_dir / phase / name for phase in ("train", "valid") for name in names]
