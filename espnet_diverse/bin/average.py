"""Average the best epochs of a training run into one model file."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="directory of the run")
    parser.add_argument("--model_dir", type=Path, metavar="DIR", help="another spelling of MODEL")
    parser.add_argument(
        "--metric",
        default="valid.acc",
        help="criterion of best_model_criterion that ranks the epochs; valid.epoch takes the last (default: valid.acc)",
    )
    parser.add_argument("--number", type=int, default=5, help="number of epochs (default: 5)")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read; the checkpoint names the epochs to average."""
    return [args.model_dir / "checkpoint.pth"]


def outputs(args: argparse.Namespace) -> list[Path]:
    """The file that is written."""
    return [args.model_dir / f"{args.metric}.ave.pth"]


def run(args: argparse.Namespace) -> int:
    """Average and print the path of the result."""
    from espnet_diverse.training.averaging import average

    print(average(args.model_dir, args.metric, args.number))
    return 0
