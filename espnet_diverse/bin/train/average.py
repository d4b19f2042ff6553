"""Average the best epochs of a training run into one model file."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.bin.options.input_paths import InputPath
from espnet_diverse.bin.options.options import fragments
from espnet_diverse.errors import ConfigError

_RUN_DIR = InputPath("give the directory of a run; a packed model has no epochs", must_have="config.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("model_dir", type=_RUN_DIR, metavar="MODEL", help="directory of the run")
    parser.add_argument(
        "--metric",
        help="criterion of best_model_criterion that ranks the epochs; valid.epoch takes the last (default: valid.acc; "
        "for a language model valid.loss; if a run lacks it, its first one)",
    )
    parser.add_argument("--number", type=int, default=5, help="number of epochs (default: 5)")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read; the checkpoint names the epochs to average."""
    return [args.model_dir / "checkpoint.pth"]


def outputs(args: argparse.Namespace) -> list[Path]:
    """The file that is written."""
    from espnet_diverse.runs.model_files import known_config, weights_name

    name = f"{args.metric}.ave.pth" if args.metric else weights_name(known_config(args.model_dir))
    return [args.model_dir / name]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check that the training before it in the plan keeps epochs by the metric; see `bin/plan_steps.py`.

    Raises:
        ConfigError: The metric is none of the criteria of its configuration.
    """
    from espnet_diverse.runs.config import merge

    train = before.get("train")
    if train is None or train.output_dir != args.model_dir or args.metric is None:
        return
    criteria = merge(fragments(train), train.set).get("best_model_criterion")
    named = [f"{phase}.{name}" for phase, name, _ in criteria or ()]
    if named and args.metric not in named:
        raise ConfigError(f"unknown metric {args.metric!r}; best_model_criterion of this run has: {' '.join(named)}")


def run(args: argparse.Namespace) -> int:
    """Average and print the path of the result."""
    from espnet_diverse.training.checkpoints.averaging import average

    print(average(args.model_dir, args.metric, args.number))
    return 0
