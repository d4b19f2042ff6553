"""Running ESPnet's commands in this process, with its arguments from a configuration."""

from argparse import ArgumentError, Namespace
from collections.abc import Mapping

import torch
from espnet2 import __version__
from espnet2.tasks import abs_task
from espnet2.train.distributed_utils import resolve_distributed_mode
from torch import nn
from torch.optim import Optimizer

from espnet_diverse.errors import ConfigError, TrainingError, UserError
from espnet_diverse.runs.config import Config

_LONGEST = 300  # characters of a message of another package


def check_gpus(ngpu: int) -> None:
    """Check that this machine has `ngpu` GPUs.

    Raises:
        ConfigError: It has fewer, or the number is negative.
    """
    usable = torch.cuda.device_count()
    if not 0 <= ngpu <= usable:
        raise ConfigError(f"--ngpu {ngpu} is not possible; this machine has {usable} usable GPUs")


def run(task: type[abs_task.AbsTask], config: Config) -> None:
    """Run ESPnet's training command, or with `collect_stats` that for statistics, with a checked configuration.

    Raises:
        UserError: As `Trainer.run` and the readers of data raise it; `TrainingError` for any other error, most often of
            a value that PyTorch or ESPnet refuses where it is first used. One of several processes raises that as it
            is: it may come from the death of another, after which all of them start again.
    """
    args = arguments(task, config)
    args.version = __version__  # what `task.main` does, which would also print the command line of another program
    resolve_distributed_mode(args)
    try:
        task.check_required_command_args(args)
        task.main_worker(args)
    except (UserError, OSError):
        raise
    except Exception as error:
        if torch.distributed.is_initialized():
            raise
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST]}"
        advice = "look for a value of the configuration that does not fit; --debug shows where it happened"
        raise TrainingError(f"training failed with {said}; {advice}") from error


def build(task: type[abs_task.AbsTask], config: Config) -> tuple[nn.Module, list[Optimizer], list]:
    """The model that ESPnet's training command would train, on the CPU.

    Returns:
        The model with initial parameters, its optimizers, and for each of them a scheduler or None.
    """
    args = arguments(task, config)
    model = task.build_whole_model(args).to(dtype=getattr(torch, args.train_dtype))
    optimizers = task.build_optimizers(args, model)
    scheduler = abs_task.scheduler_classes.get(args.scheduler)
    return model, optimizers, [scheduler and scheduler(each, **args.scheduler_conf) for each in optimizers]


def arguments(task: type[abs_task.AbsTask], config: Mapping) -> Namespace:
    """The arguments of ESPnet's command: those of a configuration, and its defaults.

    Raises:
        ConfigError: A value is not of the type of its argument.
    """
    parser = task.get_parser()
    parser.set_defaults(**config)
    parser.exit_on_error = False
    try:
        return parser.parse_args([])
    except ArgumentError as error:
        raise ConfigError(str(error).removeprefix("argument --")) from error
