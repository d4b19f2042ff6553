"""Train a model; an interrupted run continues from its last checkpoint."""

import argparse
from dataclasses import fields

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import STATS_DIR
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.pipeline import Training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_config(parser)
    options.add_data(parser)
    parser.add_argument(
        "--stats_dir", type=STATS_DIR, required=True, help="directory that `espnet-diverse stats` wrote"
    )
    options.add_output_dir(parser, "directory of the run, for example exp/<tag>")
    options.add_keep_features(parser)
    options.add_init_param(parser)
    parser.add_argument(
        "--allow_changed",
        nargs="+",
        default=[],
        metavar="WHAT",
        help="continue a run with another value of these keys, such as max_epoch or optim_conf.lr, or with other data, "
        "statistics or kernels (data, statistics, kernels)",
    )
    parser.add_argument(
        "--restart", action="store_true", help="delete the checkpoints and weights in --output_dir and start again"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="to resume a run, compare all audio files, also those with unchanged size and modification time",
    )
    parser.add_argument(
        "--list_options",
        nargs="?",
        const="",
        metavar="A,B,C",
        action=_ListOptions,
        help="print all keys of --set and --config with their values in these fragments, and exit",
    )
    add_options(parser, options.Device, "kernels")
    group = parser.add_argument_group("processes", "each takes a share of every batch; gradients are averaged")
    add_options(group, Processes, "ngpu", "nproc", "num_nodes", "node_rank", "max_restarts", letters=True)
    group.add_argument("--rdzv_endpoint", metavar="HOST:PORT", help="address of machine 0 for the others")


class _ListOptions(argparse.Action):
    """Keeps the fragments whose keys are printed, and makes all other arguments optional."""

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.list_options = values
        for action in parser._actions:
            action.required = False


def _list_options(args: argparse.Namespace) -> None:
    from espnet_diverse.runs.config import merge

    names = [name for name in args.list_options.split(",") if name]
    config = merge([*names, *options.fragments(args)], args.set)
    from espnet_diverse.runs.tasks import TASKS
    from espnet_diverse.training.config.option_list import list_options

    print(*list_options(TASKS[args.task], config), sep="\n")


def stage(args: argparse.Namespace) -> Training:
    """The stage."""
    usual = {option.name: option.default for option in fields(Processes)}
    values = {name: value for name, value in vars(args).items() if name in usual}
    processes = {name: value for name, value in values.items() if value not in (None, usual[name])}
    return Training.of(vars(args), processes=processes)


def run(args: argparse.Namespace) -> int:
    """Train, or print the keys of a configuration."""
    if args.list_options is not None:
        _list_options(args)
        return 0
    return stage(args).run()
