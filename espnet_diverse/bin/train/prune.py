"""Reduce a model with head selection or LoRA adapters to one language or domain.

Selected heads become plain attention, and adapters are merged into the weights; a model whose adapters depend on no
language or domain needs no option for one. If no other class of this package is left in the model, ESPnet loads it
without this package. Use the result like any other model.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.bin.options.arguments import add_options, takes
from espnet_diverse.bin.options.options import Conditions, Model, add_conditions, add_model, model_inputs, model_outputs
from espnet_diverse.option_checks import path


@dataclass(frozen=True, kw_only=True)
class PruneOptions(Model, Conditions):
    """Options of this command."""

    output_dir: Path = path(help="directory for config.yaml, weights and vocabulary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_model(parser)
    add_conditions(parser)
    add_options(parser, PruneOptions)


@takes(PruneOptions)
def inputs(options: PruneOptions) -> list[Path]:
    """Files that are read."""
    return model_inputs(options)


@takes(PruneOptions)
def outputs(options: PruneOptions) -> list[Path]:
    """Files that are written."""
    return model_outputs(options, options.output_dir)


@takes(PruneOptions)
def run(options: PruneOptions) -> int:
    """Prune and print the path of the weights."""
    from espnet_diverse.packing.pruning import prune

    print(prune(options.model_dir, options.output_dir, options.conditions, options.model_file))
    return 0
