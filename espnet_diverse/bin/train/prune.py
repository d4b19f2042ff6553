"""Reduce a model with head selection or LoRA adapters to one language or domain.

Selected heads become plain attention, and adapters are merged into the weights; a model whose adapters depend on no
language or domain needs no option for one. If no other class of this package is left in the model, ESPnet loads it
without this package. Use the result like any other model.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    options.add_conditions(parser)
    options.add_output_dir(parser, "directory for config.yaml, weights and vocabulary")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return options.model_inputs(args)


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return options.model_outputs(args)


def run(args: argparse.Namespace) -> int:
    """Prune and print the path of the weights."""
    from espnet_diverse.packing.pruning import prune

    print(prune(args.model_dir, args.output_dir, options.conditions(args), args.model_file))
    return 0
