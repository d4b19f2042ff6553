"""Collect the shapes of all utterances and, for speech, the mean and variance of the features."""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.cluster_option import add_cluster, workers
from espnet_diverse.training.pipeline import Statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_config(parser)
    options.add_data(parser)
    options.add_output_dir(parser, "directory to write to, for example exp/<tag>/stats")
    options.add_keep_features(parser)
    options.add_init_param(parser)  # the frozen part of the model, whose features are kept
    add_cluster(parser)


def stage(args: argparse.Namespace) -> Statistics:
    """The stage."""
    return Statistics.of(vars(args))


def run(args: argparse.Namespace) -> int:
    """Collect the statistics."""
    made = stage(args)
    files = filter(Path.is_file, made.inputs())  # workers get the lines of the data directories
    return made.run(workers(args, _load, files))


def _load() -> None:
    """Import what a worker needs."""
    from espnet_diverse.training.loop import tasks  # noqa: F401
