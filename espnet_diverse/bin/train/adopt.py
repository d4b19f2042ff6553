"""Convert a trained softmax model to another attention or to head selection, for fine-tuning.

At first the converted model computes the same as the original; the largest difference on random input is printed.
`fine-tune DIR DATA` trains it further, and so does `train --config DIR/train.yaml --tokens_dir DIR --init_param DIR`.
"""

import argparse
import sys
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import DATA_DIR

_SAME = 1e-4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    options.add_config(parser, required=False)
    parser.add_argument(
        "--data_dir",
        type=DATA_DIR,
        help="data directory with the languages or domains that parts of the model depend on",
    )
    options.add_output_dir(parser, "directory for config.yaml, weights and vocabulary")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    return [*find(options.fragments(args)), *options.model_inputs(args), *filter(None, [args.data_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return options.model_outputs(args)


def run(args: argparse.Namespace) -> int:
    """Adopt the model, and print the path of the weights and the largest difference from the trained model's output."""
    from espnet_diverse.runs.config import merge

    changes = merge(options.fragments(args), args.set)
    from espnet_diverse.packing.adoption import adopt

    done = adopt(args.model_dir, args.output_dir, changes, args.data_dir, args.model_file)
    print(done.weights)
    print(f"{done.new} new parameters; largest difference of the outputs: {done.difference:.2g}")
    if done.difference > _SAME:
        print("notice: with this configuration the model does not begin as the trained one", file=sys.stderr)
    return 0
