"""Cut the model of one language or domain out of a model with head selection: plain attention, nothing to select.

Where nothing else of ours is left in it, ESPnet loads it without this package. The audio of the language or domain is
then decoded as with any other model.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("model_dir", type=Path, metavar="MODEL_DIR", help="directory of the run")
    options.add_conditions(parser)
    parser.add_argument("--output_dir", type=Path, required=True, help="where config.yaml, weights and vocabulary go")
    options.add_model_file(parser)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return options.model_inputs(args)


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("config.yaml", Path(args.model_file).name)]


def run(args: argparse.Namespace) -> int:
    """Prune and print the path of the weights."""
    from espnet_diverse.packing.pruning import prune

    print(prune(args.model_dir, args.output_dir, options.conditions(args), args.model_file))
    return 0
