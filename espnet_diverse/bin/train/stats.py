"""Collect the shapes of all utterances and, for speech, the mean and variance of the features."""

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.cluster_option import add_cluster, workers
from espnet_diverse.bin.train.train import add_init_param, known_weights, set_initial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_config(parser)
    options.add_data(parser)
    options.add_output_dir(parser, "directory to write to, for example exp/<tag>/stats")
    options.add_keep_features(parser)
    add_init_param(parser)  # the frozen part of the model, whose features are kept
    add_cluster(parser)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.data_inputs(args), *map(known_weights, args.init_param)]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return options.stats_files(args.output_dir, args.task)


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the configuration and the directory to write; see `bin/plan_steps.py`."""
    from espnet_diverse.training.config.early_check import check_early
    from espnet_diverse.training.data.statistics import check_target

    check_target(args.output_dir)
    check_early(options.fragments(args), args.set, args.task)


def run(args: argparse.Namespace) -> int:
    """Collect the statistics."""
    from espnet_diverse.data.output_paths import check_unread
    from espnet_diverse.runs.config import merge
    from espnet_diverse.training.data.statistics import check_target

    check_unread(args.output_dir, inputs(args))
    check_target(args.output_dir)
    config = merge(options.fragments(args), args.set)  # before the import of ESPnet, which takes seconds
    from espnet_diverse.training.stages import collect_stats

    if config.get("keep_features"):
        set_initial(config, args)
    files = [path for path in inputs(args) if path.is_file()]  # workers get the lines of the data directories
    data = options.run_data(args)
    with workers(args, _load, files) if data.speech else nullcontext() as pool:  # for text there is little to do
        collect_stats(config, data, args.output_dir, pool)
    return 0


def _load() -> None:
    """Import what a worker needs."""
    from espnet_diverse.training.loop import tasks  # noqa: F401
