"""Convert a trained softmax model to another attention or to head selection, for fine-tuning.

At first the converted model computes the same as the original; the largest difference on random input is printed.
`fine-tune DIR DATA` trains it further, and so does `train --config DIR/train.yaml --tokens_dir DIR --init_param DIR`.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.bin.options.arguments import add_options, takes
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.bin.options.options import (
    Configured,
    Model,
    add_config,
    add_model,
    fragments,
    model_inputs,
    model_outputs,
)
from espnet_diverse.option_checks import path

_SAME = 1e-4


@dataclass(frozen=True, kw_only=True)
class AdoptOptions(Model, Configured):
    """Options of this command."""

    data_dir: Path | None = path(
        None,
        parse=DATA_DIR,
        help="data directory with the languages or domains that parts of the model depend on",
    )
    output_dir: Path = path(help="directory for config.yaml, weights and vocabulary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_model(parser)
    add_config(parser, required=False)
    add_options(parser, AdoptOptions)


@takes(AdoptOptions)
def inputs(options: AdoptOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    return [*find(fragments(options)), *model_inputs(options), *filter(None, [options.data_dir])]


@takes(AdoptOptions)
def outputs(options: AdoptOptions) -> list[Path]:
    """Files that are written."""
    return model_outputs(options, options.output_dir)


@takes(AdoptOptions)
def run(options: AdoptOptions) -> int:
    """Adopt the model, and print the path of the weights and the largest difference from the trained model's output."""
    from espnet_diverse.runs.config import merge

    changes = merge(fragments(options), options.set)
    from espnet_diverse.packing.adoption import adopt

    done = adopt(options.model_dir, options.output_dir, changes, options.data_dir, options.model_file)
    print(done.weights)
    print(f"{done.new} new parameters; largest difference of the outputs: {done.difference:.2g}")
    if done.difference > _SAME:
        print("notice: with this configuration the model does not begin as the trained one", file=sys.stderr)
    return 0
