"""Reduce a model with head selection, LoRA adapters or gates of patterns to what one language or domain needs.

Selected heads become plain attention, adapters are merged into the weights, and each head keeps the pattern of its
largest gate; a model in which these depend on no language or domain needs no option for one. If no other class of this
package is left in the model, ESPnet loads it without this package. Use the result like any other model.
"""

from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.option_checks import path


class CommandOptions(shared.Model, shared.Conditions):
    output_dir: Path = path(help="directory for config.yaml, weights and vocabulary")


add_arguments = adder(shared.Model, shared.add_conditions, CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files that are read."""
    return shared.model_inputs(options)


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return shared.model_outputs(options, options.output_dir)


def run(options: CommandOptions) -> int:
    """Prune and print the path of the weights."""
    from espnet_diverse.packing.pruning import prune

    print(prune(options.model_dir, options.output_dir, options.conditions, options.model_file))
    return 0
