"""Average the best epochs of a training run into one model file."""

import argparse

from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import InputPath
from espnet_diverse.training.options import TrainingOptions
from espnet_diverse.training.pipeline import Averaging

_RUN_DIR = InputPath("give the directory of a run; a packed model has no epochs", must_have="config.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("model_dir", type=_RUN_DIR, metavar="MODEL", help="directory of the run")
    parser.add_argument(
        "--metric",
        help="criterion of best_model_criterion that ranks the epochs; valid.epoch takes the last (default: valid.acc; "
        "for a language model valid.loss; if a run lacks it, its first one)",
    )
    add_options(parser, TrainingOptions, "number", letters=True)


def stage(args: argparse.Namespace) -> Averaging:
    """The stage."""
    return Averaging.of(vars(args))


def run(args: argparse.Namespace) -> int:
    """Average and print the path of the result."""
    return stage(args).run()
