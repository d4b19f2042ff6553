"""ESPnet's trainer with progress, safe checkpoints, and errors where training fails numerically."""

from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from espnet2.train import trainer as espnet_trainer
from espnet2.train.reporter import Reporter, SubReporter

from espnet_diverse.errors import TrainingError
from espnet_diverse.registration import replaced_names
from espnet_diverse.training.averaging import average_best
from espnet_diverse.training.cpu_layers import fast_on_cpu
from espnet_diverse.training.criteria import check_at_first_batch, check_criteria
from espnet_diverse.training.diagnosis import monitored_parts
from espnet_diverse.training.epoch_steps import Steps, named
from espnet_diverse.training.epoch_table import EpochTable
from espnet_diverse.training.length_check import ShapeFile, check_lengths, shape_files
from espnet_diverse.training.non_finite import NonFiniteBatches
from espnet_diverse.training.out_of_memory import SecondTries
from espnet_diverse.training.parameter_sample import ParameterSample
from espnet_diverse.training.precision import compile_layers, mixed_precision
from espnet_diverse.training.ranks import Ranks
from espnet_diverse.training.repulsion import repelled
from espnet_diverse.training.repulsion_options import RepulsionOptions, read_repulsion
from espnet_diverse.training.run_kernels import taken_of
from espnet_diverse.training.run_length import tell_length_of_run
from espnet_diverse.training.run_state import (
    Position,
    RunState,
    check_finite,
    generator_states,
    restore_statistics,
    statistics_of,
)
from espnet_diverse.training.stopping import StopRequest, stop_on_signals


@dataclass
class Session:
    """State with which the trainer saves within an epoch.

    Attributes:
        state: The parts of the run that are saved; None saves nothing within an epoch.
        ranks: The processes that train together. They agree on the batch after which they save and stop, and the first
            of them saves.
        stop: Whether the process was asked to stop.
        interval: Number of batches between two saves within an epoch; 0 for none. Where it ends between two batches of
            an update, the save is after that update.
        saved: Number of batches of the epoch that were done at its last save; 0 if there was none.
        ended: The end of the last epoch of training, from which validation goes on.
    """

    state: RunState | None = None
    ranks: Ranks = field(default_factory=Ranks)
    stop: StopRequest = field(default_factory=StopRequest)
    interval: int = 0
    saved: int = 0
    ended: Position | None = None

    def asked_to_stop(self) -> bool:
        """Return whether one of the processes was asked to stop; all of them call this at the same place."""
        self.stop.number = self.ranks.largest(self.stop.number)
        return bool(self.stop.number)

    def is_due(self, done: int) -> bool:
        """Return whether a save within the epoch is due after `done` batches."""
        return bool(self.interval) and done // self.interval > self.saved // self.interval

    def save(self, position: Position, stop: bool) -> None:
        """Save within an epoch, and end training if that was asked for."""
        self.saved = position.batches
        with self.stop.saving():
            if self.ranks.own == 0:
                self.state.save_position(position)
            self.ranks.largest(0)  # nobody ends before it is saved
        if stop:
            self.stop.end(f"in epoch {position.epoch} after {position.batches} batches")


@dataclass
class Options(espnet_trainer.TrainerOptions):
    """ESPnet's options and ours.

    Attributes:
        compile: Which layers are compiled, see `compile_layers`.
        repulsion: What `read_repulsion` returned.
        shape_files: The shape files of the training set and of the validation set.
        session: What is saved within an epoch; by default nothing.
    """

    compile: bool | str = False
    repulsion: RepulsionOptions | None = None
    shape_files: Sequence[Sequence[ShapeFile]] = ()
    session: Session = field(default_factory=Session)


class Trainer(espnet_trainer.Trainer):
    """ESPnet's trainer; its loop is unchanged, but some functions that it calls by a global name are replaced."""

    @classmethod
    def build_options(cls, args: Namespace) -> Options:
        """The options of training in the arguments of ESPnet's command."""
        return Options(
            **vars(super().build_options(args)),
            compile=args.compile,
            repulsion=read_repulsion(args.repulsion),
            shape_files=shape_files(args),
            session=Session(interval=args.save_interval_steps),
        )

    @classmethod
    def run(cls, model, trainer_options: Options, distributed_option, **parts) -> None:
        """Train; the arguments are those of ESPnet's `run`.

        Raises:
            ConfigError: This machine does not support bfloat16 or compilation, or the model has no heads to repel.
            DataError: An utterance is longer than a core of the model supports.
            InterruptedRunError: The process was asked to stop.
            ModelError: There is no room for a checkpoint.
            TrainingError: An epoch made no update, or updates that change nothing; too many batches or the validation
                loss or a parameter are not finite; no statistic chooses the best epochs; or a worker that reads data
                was killed twice in an epoch.
        """
        check_lengths(model, trainer_options.shape_files)
        device = "cuda" if trainer_options.ngpu else "cpu"
        if trainer_options.compile:
            compile_layers(model, trainer_options.compile)
        session = trainer_options.session
        output_dir, best = Path(trainer_options.output_dir), trainer_options.best_model_criterion
        state = RunState(output_dir, model, parts["optimizers"], parts["schedulers"], best)

        stopping = None if trainer_options.patience is None else trainer_options.early_stopping_criterion
        check = partial(check_criteria, best=best, stopping=stopping)
        check_at_first_batch(model, check)

        def reporter() -> Reporter:
            ended = partial(_ended, trainer_options)
            state.reporter = EpochTable(monitored_parts(model), trainer_options.max_epoch, check, ended)
            return state.reporter

        with (
            replaced_names(
                espnet_trainer,
                torch=_Torch(state),
                safe_torch_load=lambda path, map_location: state.load(path, map_location),
                Reporter=reporter,
                average_nbest_models=average_best,
            ),
            mixed_precision(model, device) if trainer_options.use_amp else nullcontext(),
            repelled(model, trainer_options),
            taken_of(output_dir),
            stop_on_signals(started=distributed_option.distributed) as session.stop,
        ):
            if distributed_option.distributed:
                session.ranks = Ranks(next(model.parameters()).device)
            session.state = state
            super().run(model=model, trainer_options=trainer_options, distributed_option=distributed_option, **parts)

    @classmethod
    def train_one_epoch(cls, model, iterator, reporter, options: Options, optimizers, **parts) -> bool:
        """Train one epoch; check that it made an update and that parameters are finite before anything is saved."""
        epoch = reporter.get_epoch()
        session = options.session
        tell_length_of_run(model, iterator, options)
        position, session.saved = None, 0
        if session.state:
            session.state.scaler = parts["scaler"]
            position = session.state.take_position(epoch)
        _clear(optimizers)  # of batches that made no update at the end of the epoch before
        folder = session.state and session.state.output_dir
        bad = NonFiniteBatches(model, reporter, options.accum_grad, folder, session.ranks)
        sample = ParameterSample(model) if epoch == 1 and not position else None  # later a schedule may be at 0
        name = f"train epoch {epoch} of {options.max_epoch}"

        def after_step() -> None:
            _after_step(steps, bad, session, reporter, options)

        def go_on(position: Position) -> None:
            restore_statistics(reporter, position.statistics)
            session.saved = position.batches

        steps = Steps(iterator, name, after_step, position, session.ranks, go_on, options.accum_grad)
        loop = partial(super().train_one_epoch, model=model, iterator=steps, reporter=reporter, options=options)
        with fast_on_cpu(model):
            tries = SecondTries(model, steps, reporter, session.ranks)
            idle = tries.run(partial(loop, optimizers=optimizers, **parts), partial(_clear, optimizers))
        idle = idle and not _updated(reporter)  # before an interruption of the loop, or of the run
        if idle:
            raise TrainingError(f"epoch {epoch}: no update was made; {_why_idle(steps, bad, options.accum_grad)}")
        check_finite(model, epoch)
        if sample and sample.unchanged():
            raise TrainingError(f"epoch 1: {UNCHANGED}")
        session.ended = _position(steps, reporter) if session.state else None
        return idle

    @classmethod
    def validate_one_epoch(cls, model, iterator, reporter, options: Options, **parts) -> None:
        """Validate; check that the loss, by which the best epochs are chosen, is finite."""
        epoch = reporter.get_epoch()
        session = options.session

        def after_step() -> None:
            losses = reporter.stats.get("loss")
            if losses and not np.isfinite(losses[-1].value):
                raise TrainingError(f"epoch {epoch}: the validation loss is not finite, first of {named(steps.last)}")
            if session.ended and session.asked_to_stop():
                session.save(session.ended, stop=True)

        steps = Steps(iterator, f"valid epoch {epoch} of {options.max_epoch}", after_step)
        with fast_on_cpu(model):
            super().validate_one_epoch(model=model, iterator=steps, reporter=reporter, options=options, **parts)


UNCHANGED = (
    "the updates change no parameter by 1e-12 of the largest; raise optim_conf.lr or grad_clip, "
    "or lower optim_conf.eps, optim_conf.weight_decay or scheduler_conf.warmup_steps"
)


class _Torch(ModuleType):
    """`torch` for ESPnet's trainer: checkpoints are written atomically."""

    def __init__(self, state: RunState):
        super().__init__("torch")
        self.state = state
        self.save = state.save

    def __getattr__(self, name):
        return getattr(torch, name)


def _ended(options: Options, reporter: Reporter) -> str:
    """Say why no epoch is left where a run goes on, "" if one is."""
    done, criterion = reporter.get_epoch(), options.early_stopping_criterion
    if done >= options.max_epoch:
        key, said = "max_epoch", f"{done} are trained, and max_epoch is {options.max_epoch}"
    elif (
        options.patience is not None
        and reporter.has(*criterion[:2])
        and reporter.check_early_stopping(options.patience, *criterion)
    ):
        key, said = "patience", f"training ended early after epoch {done}, and patience is {options.patience}"
    else:
        return ""
    return f"no epoch is left: {said}; for more, give a greater {key} and --allow_changed {key}"


def _position(steps: Steps, reporter: SubReporter) -> Position:
    names, generators = steps.ranks.total(steps.names.value), steps.ranks.gathered(generator_states())
    return Position(reporter.get_epoch(), steps.done, names, _updated(reporter), statistics_of(reporter), generators)


def _after_step(steps: Steps, bad: NonFiniteBatches, session: Session, reporter: SubReporter, options: Options) -> None:
    """Check the last step of training, and save within the epoch if it is time."""
    bad.check(steps)
    between_updates = steps.since % options.accum_grad == 0
    if not session.state or not between_updates:
        return
    stop = session.asked_to_stop()
    if stop or session.is_due(steps.done) and steps.done != steps.total:
        session.save(_position(steps, reporter), stop)


def _clear(optimizers: Sequence) -> None:
    """Clear the gradients."""
    for optimizer in optimizers:
        optimizer.zero_grad()


def _updated(reporter: SubReporter) -> bool:
    """Return whether an update was made in the epoch."""
    return any(np.isfinite(norm.value) for norm in reporter.stats.get("grad_norm", ()))


def _why_idle(steps: Steps, bad: NonFiniteBatches, accum_grad: int) -> str:
    if steps.done < accum_grad:
        return f"it has {steps.done} batches, fewer than accum_grad {accum_grad}; lower accum_grad or the batch size"
    return bad.explain()
