"""Train a model; an interrupted run continues from its last checkpoint."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import STATS_DIR
from espnet_diverse.bin.options.kernels_option import add_kernels
from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
from espnet_diverse.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from espnet_diverse.runs.config import Config
    from espnet_diverse.training.distributed.processes import Processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_config(parser)
    options.add_data(parser)
    parser.add_argument(
        "--stats_dir", type=STATS_DIR, required=True, help="directory that `espnet-diverse stats` wrote"
    )
    options.add_output_dir(parser, "directory of the run, for example exp/<tag>")
    options.add_keep_features(parser)
    add_init_param(parser)
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
    add_kernels(parser)
    _add_processes(parser)


def add_init_param(parser: argparse.ArgumentParser) -> None:
    """Declare --init_param; `set_initial` reads it."""
    parser.add_argument(
        "--init_param",
        nargs="+",
        default=[],
        metavar="MODEL[:FROM[:TO[:EXCLUDED]]]",
        help="pretrained parameters to start from, for example exp/asr/valid.acc.ave.pth:encoder:encoder; MODEL is a "
        "file of weights, the directory of a run or a packed model, FROM and TO are parts of its model and of the new "
        "one, EXCLUDED are beginnings of names to leave out, joined by commas",
    )


def _add_processes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("processes", "each takes a share of every batch; gradients are averaged")
    group.add_argument("--ngpu", type=int, default=0, help="GPUs of this machine, with one process each")
    group.add_argument("--nproc", type=int, default=1, help="processes of this machine on the CPU (default: 1)")
    group.add_argument("--num_nodes", type=int, default=1, help="machines, which all run this command (default: 1)")
    group.add_argument("--node_rank", type=int, default=0, help="number of this machine, from 0")
    group.add_argument("--rdzv_endpoint", default="", metavar="HOST:PORT", help="address of machine 0 for the others")
    group.add_argument("--max_restarts", type=int, default=3, help="restarts after a process was killed (default: 3)")


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


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [
        *options.data_inputs(args),
        *options.stats_files(args.stats_dir, args.task),
        *map(known_weights, args.init_param),
    ]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("config.yaml", "train.yaml", "checkpoint.pth")]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the configuration; see `bin/plan_steps.py`."""
    from espnet_diverse.training.config.early_check import check_early

    check_early(options.fragments(args), args.set, args.task)


def check_machine(args: argparse.Namespace, made: Iterable[Path]) -> None:
    """Check that the pretrained parameters are here and that the processes can be started."""
    folders = {path.parent.absolute() for path in made}
    for parameters in args.init_param:
        given = Path(parameters.partition(":")[0]).absolute()
        if given in folders or given.parent in folders:  # an earlier step writes it
            continue
        path = _weights(parameters)
        if not path.is_file():
            raise ModelError(f"--init_param {parameters}: there is no file {path}; give the weights of a trained model")
    _processes(args)


def known_weights(parameters: str) -> Path:
    """Like `_weights`, but return a path even if it names no weights yet."""
    try:
        return _weights(parameters)
    except ModelError:
        return Path(parameters.partition(":")[0])


def _weights(parameters: str) -> Path:
    """The file that a value of init_param names: weights, a packed model, or the weights in the directory of a run."""
    from espnet_diverse.runs.model_files import find_weights

    if parameters.startswith("hf:"):
        said = "a model of the Hub is not possible here; give a file of weights, or run espnet-diverse fine-tune"
        raise ModelError(f"init_param {parameters}: {said}")
    path = Path(parameters.partition(":")[0])
    return find_weights(path) if path.is_dir() else path


def set_initial(config: "Config", args: argparse.Namespace) -> None:
    """Set the key init_param by --init_param, with a file of weights instead of a directory or a packed model."""
    if args.init_param:
        config.add({"init_param": args.init_param}, {("init_param",): "--init_param"})
    if "init_param" in config:
        config["init_param"] = _initial(config)


def _initial(config: "Config") -> list[str]:
    """The values of the key init_param, see `_with_weights`."""
    given = config["init_param"] or []
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        said = f"init_param is {given!r:.100}; give a list of models, such as [exp/asr:encoder:encoder]"
        raise ConfigError(f"{config.origin('init_param')}: {said}")
    return list(map(_with_weights, given))


def _with_weights(parameters: str) -> str:
    """A value of init_param with a file of weights instead of a directory or a packed model."""
    path = _weights(parameters)
    if path.suffix == ".zip":
        from espnet_diverse.runs.model_files import find_weights
        from espnet_diverse.runs.packed.archive import unpacked

        path = find_weights(unpacked(path))
    return "".join([str(path), *parameters.partition(":")[1:]])


def _processes(args: argparse.Namespace) -> "Processes":
    from espnet_diverse.training.distributed.processes import Processes

    return Processes(**{field.name: getattr(args, field.name) for field in fields(Processes)})


def run(args: argparse.Namespace) -> int:
    """Train, or print the keys of a configuration."""
    if args.list_options is not None:
        _list_options(args)
        return 0
    from espnet_diverse.data.output_paths import check_outputs
    from espnet_diverse.runs.config import merge

    check_outputs(outputs(args), [args.train_dir, args.valid_dir])  # the configuration may be the run's own
    keep_freed_memory(IN_TRAINING)
    config = merge(options.fragments(args), args.set)  # before the import of ESPnet, which takes seconds
    from espnet_diverse.training.stages import train

    set_initial(config, args)
    run_data = options.run_data(args)
    how = {"allow_changed": args.allow_changed, "restart": args.restart, "verify": args.verify}
    train(config, run_data, args.stats_dir, args.output_dir, _processes(args), **how)
    return 0
