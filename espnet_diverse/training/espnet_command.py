"""ESPnet's commands for training and for statistics in this process, with arguments from a configuration.

The steps follow ESPnet's `AbsTask.main_worker`, which calls its own loader of weights, adapter, collector of statistics
and group of processes by fixed names, with no method to override. The methods of the task do all else.
"""

import logging
from argparse import ArgumentError, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from espnet2 import __version__
from espnet2.main_funcs.collect_stats import collect_stats
from espnet2.tasks.abs_task import AbsTask, scheduler_classes
from espnet2.torch_utils.model_summary import model_summary
from espnet2.torch_utils.pytorch_version import pytorch_cudnn_version
from espnet2.torch_utils.set_all_random_seed import set_all_random_seed
from espnet2.train.distributed_utils import DistributedOption, resolve_distributed_mode
from espnet2.utils.build_dataclass import build_dataclass
from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump
from torch import nn
from torch.optim import Optimizer

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.errors import ConfigError, TrainingError, UserError
from espnet_diverse.runs.config import Config
from espnet_diverse.training.frozen_features import keep, read_kept, without_features
from espnet_diverse.training.initialisation import initialise

log = logging.getLogger(__name__)

Built = tuple[nn.Module, list[Optimizer], list]
"""A model, its optimizers, and for each of them a scheduler or None."""

_LONGEST = 300  # characters of a message of another package


def check_gpus(ngpu: int) -> None:
    """Check that this machine has `ngpu` GPUs.

    Raises:
        ConfigError: It has fewer, or the number is negative.
    """
    usable = torch.cuda.device_count()
    if not 0 <= ngpu <= usable:
        raise ConfigError(f"--ngpu {ngpu} is not possible; this machine has {usable} usable GPUs")


def run(
    task: type[AbsTask],
    config: Config,
    group: type[DistributedOption] = DistributedOption,
    collect: Callable[..., None] = collect_stats,
) -> None:
    """Run ESPnet's command for training, or with `collect_stats` for statistics, with a checked configuration.

    Args:
        task: A task of `training/loop/tasks.py`.
        config: The configuration.
        group: Class of the processes that train together, see `distributed/rendezvous.py`.
        collect: Function that collects statistics, with the arguments of ESPnet's.

    Raises:
        UserError: As raised by `Trainer.run` and the readers of data; `TrainingError` for any other error, most often
            of a value that PyTorch or ESPnet refuses where it is first used. One of several processes raises that as it
            is: it may come from the death of another, after which all of them start again.
    """
    args = arguments(task, config)
    args.version = __version__  # what `task.main` does, which would also print the command line of another program
    args.distributed = False  # also where the environment has a WORLD_SIZE for other programs
    with _as_user_errors():
        if group is not DistributedOption:
            resolve_distributed_mode(args)
        task.check_required_command_args(args)
        processes = build_dataclass(group, args)
        processes.init_options()
        processes.init_torch_distributed()
        with _set_torch(args):
            if args.collect_stats:
                _collect(task, args, collect)
            else:
                _train(task, args, processes)


@contextmanager
def _as_user_errors() -> Iterator[None]:
    """Turn errors of other packages into one with advice, see `run`."""
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        if torch.distributed.is_initialized():
            raise
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST]}"
        advice = "look for a value of the configuration that does not fit; --debug shows where it happened"
        raise TrainingError(f"training failed with {message}; {advice}") from error


@contextmanager
def _set_torch(args: Namespace) -> Iterator[None]:
    """Seed the random generators, and set PyTorch as the arguments require while the block runs."""
    if args.use_tf32 and args.use_amp:
        raise ConfigError("use_tf32 and use_amp exclude each other; set one of them to false")
    set_all_random_seed(args.seed)
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    wanted = {(cudnn, name): getattr(args, f"cudnn_{name}") for name in ("enabled", "benchmark", "deterministic")}
    wanted |= {(cudnn, "allow_tf32"): True, (matmul, "allow_tf32"): True} if args.use_tf32 else {}
    before = {(owner, name): getattr(owner, name) for owner, name in wanted}
    for place, value in wanted.items():
        setattr(*place, value)
    try:
        with torch.autograd.set_detect_anomaly(args.detect_anomaly or torch.is_anomaly_enabled()):
            yield
    finally:
        for place, value in before.items():
            setattr(*place, value)


def _train(task: type[AbsTask], args: Namespace, processes: DistributedOption) -> None:
    device = "cuda" if args.ngpu else "cpu"
    model, optimizers, schedulers = _built(task, args, device)
    for described in (pytorch_cudnn_version(), model_summary(model), *optimizers, *schedulers):
        log.info(described)
    is_first = not processes.distributed or processes.dist_rank == 0
    if is_first:
        _save_config(args)
    _initialise(model, args, device)
    if args.keep_features:
        read_kept(model, args)
    batches = [task.build_iter_factory(args, processes, mode) for mode in ("train", "valid")]
    has_plots = args.num_att_plot and args.use_matplotlib
    plots = task.build_iter_factory(args, processes, "plot_att") if has_plots else None
    args.use_wandb = args.use_wandb and is_first and _start_wandb(task, args)
    options = task.trainer.build_options(args)
    task.trainer.run(model, optimizers, schedulers, *batches, plots, options, processes)
    if args.use_wandb:
        import wandb

        wandb.finish()


def _initialise(model: nn.Module, args: Namespace, device: str) -> None:
    if not args.init_param and getattr(getattr(model, "frontend", None), "needs_weights", False):
        todo = "give those of an adopted Whisper model: --init_param RUN:encoder:frontend.encoder"
        raise ConfigError(f"frontend {args.frontend} has random weights; {todo}")
    for init_param in args.init_param:
        initialise(init_param, model, args.ignore_init_mismatch, device, vars(args))


def keep_features(task: type[AbsTask], config: Config, stats_dir: Path, data: Mapping[str, str], former: Path) -> None:
    """Compute the features of the frozen part of the model that would be trained, see `frozen_features.keep`.

    Args:
        task: A task of `training/loop/tasks.py`.
        config: The configuration.
        stats_dir: Directory of the statistics.
        data: Digests of the data.
        former: Directory of earlier statistics.

    Raises:
        UserError: As for `run`.
    """
    args = arguments(task, config)
    with _as_user_errors(), _set_torch(args):
        model = _built(task, args, "cpu")[0]
        _initialise(model, args, "cpu")
        keep(task, model, args, stats_dir, data, former)


def _start_wandb(task: type[AbsTask], args: Namespace) -> bool:
    """Start a run of Weights & Biases if the user has logged in; return whether it was started."""
    import wandb

    try:
        wandb.login()
    except wandb.errors.UsageError:
        log.warning("use_wandb: nothing is sent, as nobody has logged in; run `wandb login`")
        return False
    wandb.init(
        entity=args.wandb_entity,
        project=args.wandb_project or f"ESPnet_{task.__name__}",
        name=args.wandb_name,
        dir=args.output_dir,
        id=args.wandb_id,
        resume=args.resume,
    )
    wandb.config.update(vars(args), allow_val_change=args.wandb_allow_val_change)
    return True


def _collect(task: type[AbsTask], args: Namespace, collect: Callable[..., None]) -> None:
    # Also with ESPnet's extract_feats_in_collect_stats: false, as training needs statistics of features.
    model = without_features(_built(task, args, "cuda" if args.ngpu else "cpu")[0], args)
    _save_config(args)
    if args.valid_batch_size is None:
        args.valid_batch_size = args.batch_size

    def loader(mode: str, size: int):
        key_files = getattr(args, f"{mode}_shape_file")
        return task.build_streaming_iterator(
            getattr(args, f"{mode}_data_path_and_name_and_type"),
            key_file=key_files[0] if key_files else None,
            batch_size=size,
            dtype=args.train_dtype,
            num_workers=min(1, args.num_workers),  # several would write the utterances in another order
            allow_variable_data_keys=args.allow_variable_data_keys,
            ngpu=args.ngpu,
            preprocess_fn=task.build_preprocess_fn(args, train=False),
            collate_fn=task.build_collate_fn(args, train=False),
            mode=mode,
        )

    collect(
        model=model,
        train_iter=loader("train", args.batch_size),
        valid_iter=loader("valid", args.valid_batch_size),
        output_dir=Path(args.output_dir),
        ngpu=args.ngpu,
        log_interval=args.log_interval,
        write_collected_feats=False,
    )


def _save_config(args: Namespace) -> None:
    """Write config.yaml, with the values that were found when the model was built."""
    (folder := Path(args.output_dir)).mkdir(parents=True, exist_ok=True)
    text = yaml_no_alias_safe_dump(vars(args), indent=4, sort_keys=False)
    write_text(folder / "config.yaml", text, durable=True)


def build(task: type[AbsTask], config: Config) -> Built:
    """Build on the CPU what ESPnet's training command would train; it raises the errors of `run`."""
    with _as_user_errors():
        return _built(task, arguments(task, config), "cpu")


def _built(task: type[AbsTask], args: Namespace, device: str) -> Built:
    model = task.build_whole_model(args).to(device, getattr(torch, args.train_dtype))
    optimizers = task.build_optimizers(args, model)
    schedulers = []
    for number, optimizer in enumerate(optimizers, 1):
        key = "scheduler" if number == 1 else f"scheduler{number}"
        name, options = getattr(args, key), getattr(args, f"{key}_conf")
        schedulers.append(name and scheduler_classes[name](optimizer, **options))
    return model, optimizers, schedulers


def arguments(task: type[AbsTask], config: Mapping) -> Namespace:
    """Return the arguments of ESPnet's command: the values of a configuration, and defaults.

    Raises:
        ConfigError: A value is not of the type of its argument.
    """
    parser = task.get_parser()
    parser.set_defaults(**config)
    parser.exit_on_error = False
    try:
        return parser.parse_args([])
    except ArgumentError as error:
        message = str(error).removeprefix("argument --")
        where = f"{config.origin(message.partition(':')[0])}: " if isinstance(config, Config) else ""
        raise ConfigError(f"{where}{message}") from error
