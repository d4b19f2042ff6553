"""Convert a trained softmax model to another attention or to head selection, for fine-tuning.

At first the converted model computes the same as the original; the largest difference on random input is printed.
`fine-tune DIR DATA` trains it further, and so does `train --config DIR/train.yaml --tokens_dir DIR --init_param DIR`.
"""

import sys
from functools import partial
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.option_checks import path

_SAME = 1e-4


class CommandOptions(shared.Model, shared.Configured):
    data_dir: Path | None = path(
        None, parse=DATA_DIR, help="data directory with the languages or domains that parts of the model depend on"
    )
    output_dir: Path = path(help="directory for config.yaml, weights and vocabulary")


add_arguments = adder(shared.Model, partial(shared.add_config, required=False), CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    return [*find(shared.fragments(options)), *shared.model_inputs(options), *filter(None, [options.data_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return shared.model_outputs(options, options.output_dir)


def run(options: CommandOptions) -> int:
    """Adopt the model, and print the path of the weights and the largest difference from the trained model's output."""
    from espnet_diverse.runs.config import merge

    changes = merge(shared.fragments(options), options.set)
    from espnet_diverse.packing.adoption import adopt

    done = adopt(options.model_dir, options.output_dir, changes, options.data_dir, options.model_file)
    print(done.weights)
    print(f"{done.new} new parameters; largest difference of the outputs: {done.difference:.2g}")
    if done.difference > _SAME:
        print("notice: with this configuration the model does not begin as the trained one", file=sys.stderr)
    return 0
