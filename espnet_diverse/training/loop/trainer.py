"""The training loop: ESPnet's tasks, options, iterators and files, and the weights that ESPnet's trainer gives.

A group of `accum_grad` batches makes one update. Random numbers depend on the place in the training (`seeds.py`), the
number of updates is in the scope of each batch (`scope.Step`), and what may go wrong is handled where it happens:
memory that is too small, numbers that are not finite, a signal to stop.
"""

import logging
import math
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from espnet2.schedulers.abs_scheduler import AbsEpochStepScheduler, AbsValEpochStepScheduler
from espnet2.torch_utils.set_all_random_seed import set_all_random_seed
from espnet2.train import trainer as espnet_trainer
from espnet2.train.distributed_utils import DistributedOption
from espnet2.train.reporter import Reporter, SubReporter
from torch import nn

from espnet_diverse.errors import TrainingError
from espnet_diverse.runs.compilation import compile_layers
from espnet_diverse.runs.criteria import check_criteria, expected_statistics
from espnet_diverse.training.checkpoints.averaging import average_best
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.checkpoints.run_kernels import taken_of
from espnet_diverse.training.checkpoints.run_state import RunState, check_finite, restore_statistics, statistics_of
from espnet_diverse.training.data.length_check import ShapeFile, check_lengths, shape_files
from espnet_diverse.training.data.seeds import seed_row
from espnet_diverse.training.loop.cpu_layers import fast_on_cpu
from espnet_diverse.training.loop.diagnosis import monitored_parts
from espnet_diverse.training.loop.epoch_batches import Batch, EpochBatches, named
from espnet_diverse.training.loop.epoch_table import EpochTable
from espnet_diverse.training.loop.non_finite import NonFiniteBatches
from espnet_diverse.training.loop.precision import mixed_precision
from espnet_diverse.training.loop.ranks import Ranks
from espnet_diverse.training.loop.run_length import tell_length_of_run, warn_of_warmup
from espnet_diverse.training.loop.stopping import StopRequest, stop_on_signals
from espnet_diverse.training.loop.trained_parameters import UNCHANGED, ParameterSample, trained_share
from espnet_diverse.training.loop.updates import Result, Update, Updates
from espnet_diverse.training.repulsion_options import RepulsionOptions, read_repulsion

log = logging.getLogger(__name__)


@dataclass
class Options(espnet_trainer.TrainerOptions):
    """ESPnet's options and ours.

    Attributes:
        compile: Which layers are compiled, see `compile_layers`.
        repulsion: What `read_repulsion` returned.
        shape_files: The shape files of the training set and of the validation set.
        save_interval_steps: Number of batches between two saves within an epoch; 0 for none. If it ends between two
            batches of an update, the save is after that update.
    """

    compile: bool | str = False
    repulsion: RepulsionOptions | None = None
    shape_files: Sequence[Sequence[ShapeFile]] = ()
    save_interval_steps: int = 0


class Trainer(espnet_trainer.Trainer):
    """The trainer of our tasks, of which ESPnet's command calls `build_options` and `run`."""

    @classmethod
    def build_options(cls, args: Namespace) -> Options:
        """The options of training in the arguments of ESPnet's command."""
        return Options(
            **vars(super().build_options(args)),
            compile=args.compile,
            repulsion=read_repulsion(args.repulsion),
            shape_files=shape_files(args),
            save_interval_steps=args.save_interval_steps,
        )

    @classmethod
    def run(
        cls,
        model: nn.Module,
        optimizers: Sequence,
        schedulers: Sequence,
        train_iter_factory: Any,
        valid_iter_factory: Any,
        plot_attention_iter_factory: Any,
        trainer_options: Options,
        distributed_option: DistributedOption,
    ) -> None:
        """Train, with the arguments of ESPnet's `run`.

        Raises:
            ConfigError: This machine does not support bfloat16 or compilation, or the model has no heads to repel.
            DataError: An utterance is longer than a core of the model supports.
            InterruptedRunError: The process was asked to stop.
            ModelError: There is no room for a checkpoint.
            TrainingError: An epoch made no update, or updates that change nothing; too many batches or the validation
                loss or a parameter are not finite; no statistic chooses the best epochs; memory is too small; or a
                worker that reads data was killed twice in an epoch.
        """
        options = trainer_options
        check_lengths(model, options.shape_files)
        if options.compile:
            compile_layers(model, options.compile)
        device = "cuda" if options.ngpu else "cpu"
        with (
            mixed_precision(model, device) if options.use_amp else nullcontext(),
            taken_of(Path(options.output_dir)),
            stop_on_signals(started=distributed_option.distributed) as stop,
        ):
            ranks = Ranks(next(model.parameters()).device) if distributed_option.distributed else Ranks()
            loop = Loop(model, optimizers, schedulers, options, ranks, stop)
            loop.run(train_iter_factory, valid_iter_factory, plot_attention_iter_factory)


class Loop:
    """A training in one of its processes.

    Args:
        model: The model.
        optimizers: Its optimizers.
        schedulers: Schedulers of their learning rates, or None for each.
        options: Options.
        ranks: The processes that train together; by default one.
        stop: Whether the process was asked to stop.

    Attributes:
        reporter: ESPnet's reporter of the run.
        updates: What makes the updates.
        state: What checkpoints hold.

    Raises:
        ConfigError: The model has no heads to repel.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence,
        schedulers: Sequence,
        options: Options,
        ranks: Ranks | None = None,
        stop: StopRequest | None = None,
    ):
        self.model, self.optimizers, self.schedulers, self.options = model, optimizers, schedulers, options
        self.ranks, self.stop = ranks or Ranks(), stop or StopRequest()
        self.output_dir, best = Path(options.output_dir), options.best_model_criterion
        criteria = {"best_model_criterion": best}
        if options.patience is not None:
            criteria["early_stopping_criterion"] = [options.early_stopping_criterion]
        if any(isinstance(scheduler, AbsValEpochStepScheduler) for scheduler in schedulers):
            criteria["val_scheduler_criterion"] = [options.val_scheduler_criterion]
        self.check_criteria = partial(check_criteria, criteria=criteria)
        self.reporter = EpochTable(monitored_parts(model), options.max_epoch, self.check_criteria)
        self.updates = Updates(model, optimizers, schedulers, options, self.ranks)
        self.state = RunState(self.output_dir, self.updates, self.reporter, best)
        nbest = options.keep_nbest_models
        self.kept = max([nbest] if isinstance(nbest, int) else nbest, default=1)
        self.writers: dict[str, Any] = {}
        self.saved = 0  # batches of the epoch that were done at its last save

    def run(self, training: Any, validation: Any, plots: Any = None) -> None:
        """Train the epochs that are left.

        Args:
            training: ESPnet's factory of iterators over the training data.
            validation: The same for the validation data.
            plots: The same for the utterances whose attention is plotted, if any is.
        """
        options, reporter = self.options, self.reporter
        position = self.state.restore(f"cuda:{torch.cuda.current_device()}" if options.ngpu else "cpu")
        if message := ended(options, reporter):
            print(message, flush=True)
        elif self.ranks.own == 0:
            print(trained_share(self.model), flush=True)
        if options.use_tensorboard and self.ranks.own == 0:
            self._open_writers(position)
        while not ended(options, reporter):
            epoch = reporter.get_epoch() + 1
            set_all_random_seed(options.seed + epoch)  # of iterators without seeds of their own
            reporter.set_epoch(epoch)
            log.info("epoch %d of %d", epoch, options.max_epoch)
            with reporter.observe("train") as statistics:
                reached = self.train_epoch(training.build_iter(epoch), statistics, position)
            with reporter.observe("valid") as statistics:
                self.validate_epoch(validation.build_iter(epoch), statistics, reached)
            if plots is not None and self.ranks.own == 0:
                self._plot(plots.build_iter(epoch))
            self._finish_epoch(epoch)
            position = None
        if self.ranks.own == 0:
            with self.stop.saving():
                self._average()
        if self._is_asked_to_stop():  # a plan must not begin its next stage
            self.stop.end("all epochs and their averages")

    def train_epoch(self, loader: Iterable, statistics: SubReporter, position: Position | None = None) -> Position:
        """Train an epoch, or the rest of it from a position on; return its end, from which validation continues."""
        options, epoch = self.options, statistics.get_epoch()
        sample = ParameterSample(self.model) if epoch == 1 and not position else None  # later a rate may be at 0
        bad = NonFiniteBatches(self.model, statistics, self.output_dir, self.ranks)
        torch.cuda.empty_cache()  # no effect where no GPU is in use
        self.model.train()
        name = f"train epoch {epoch} of {options.max_epoch}"
        seed = partial(seed_row, options.seed, epoch, position=self.ranks.own)  # of loaders without seeds of their own
        with fast_on_cpu(self.model), EpochBatches(loader, name, self.ranks, position, seed) as batches:
            tell_length_of_run(self.model, batches.total, options)
            if sample and self.ranks.own == 0:
                warn_of_warmup(self.schedulers, batches.total, options)
            self.saved = first = batches.done
            if batches.position:
                restore_statistics(statistics, batches.position.statistics)
            start = time.perf_counter()
            for group in batches.groups(options.accum_grad):
                is_complete = len(group) == options.accum_grad
                results = self.updates.accumulate(group, epoch)
                losses = [float(result.stats["loss"]) for result in results]
                update = self.updates.make(statistics.get_total_count() + len(group), losses) if is_complete else None
                for batch, result in zip(group, results, strict=True):
                    batch_update = update if batch is group[-1] else None
                    self._register(statistics, batch, result)
                    if batch_update:
                        self._register_update(statistics, batch_update, time.perf_counter() - start)
                        start = time.perf_counter()
                    statistics.next()
                    self._log(statistics, batches.total)
                if group[0].number == first:
                    self.check_criteria(expected_statistics(results[0].names, statistics.stats))
                bad.check(group, losses, update.norm if update else None, batches.total)
                if is_complete:
                    self._save_within_epoch(batches, group[-1].number + 1, statistics)
            self.updates.clear()  # gradients of batches after the last update
            if not any(math.isfinite(norm.value) for norm in statistics.stats.get("grad_norm", ())):
                raise TrainingError(f"epoch {epoch}: no update was made; {_why_idle(batches, bad, options.accum_grad)}")
            check_finite(self.model, epoch)
            if sample and sample.unchanged():
                raise TrainingError(f"epoch 1: {UNCHANGED}")
            return self._position(batches, batches.done, statistics)

    @torch.no_grad()
    def validate_epoch(self, loader: Iterable, statistics: SubReporter, reached: Position) -> None:
        """Validate.

        Args:
            loader: The batches.
            statistics: ESPnet's reporter of the validation.
            reached: The end of the training before, which is saved if training is asked to stop.
        """
        epoch = statistics.get_epoch()
        torch.cuda.empty_cache()
        self.model.eval()
        name = f"valid epoch {epoch} of {self.options.max_epoch}"
        with fast_on_cpu(self.model), EpochBatches(loader, name, self.ranks) as batches:
            for (batch,) in batches.groups(1):
                _, stats, weight = self.updates.forward(batch)
                statistics.register(*self.updates.average(stats, weight))
                statistics.next()
                if not math.isfinite(statistics.stats["loss"][-1].value):
                    first = named(batch.utterances)
                    raise TrainingError(f"epoch {epoch}: the validation loss is not finite, first of {first}")
                if self._is_asked_to_stop():
                    self._save(reached, stop=True)

    def _finish_epoch(self, epoch: int) -> None:
        """Step the schedules, and write what an epoch leaves: statistics, weights, and the state of the run."""
        options, reporter = self.options, self.reporter
        for scheduler in self.schedulers:
            if isinstance(scheduler, AbsValEpochStepScheduler):
                scheduler.step(reporter.get_value(*options.val_scheduler_criterion))
            elif isinstance(scheduler, AbsEpochStepScheduler):
                scheduler.step()
        if self.ranks.own:
            return
        log.info(reporter.log_message())
        if options.use_matplotlib:
            reporter.matplotlib_plot(self.output_dir / "images")
        for phase, writer in self.writers.items():
            reporter.tensorboard_add_scalar(writer, key1=phase)
        if options.use_wandb:
            reporter.wandb_log()
        with self.stop.saving():
            self.state.save_epoch(self.kept)
            if options.nbest_averaging_interval and epoch % options.nbest_averaging_interval == 0:
                self._average(f"till{epoch}epoch")

    def _average(self, suffix: str = "") -> None:
        average_best(self.output_dir, self.reporter, self.options.best_model_criterion, self.kept, suffix)

    def _plot(self, loader: Iterable) -> None:
        """Plot the attention of some utterances, as ESPnet does."""
        folder, writer = self.output_dir / "att_ws", self.writers.get("train")
        with self.reporter.observe("att_plot") as statistics:
            Trainer.plot_attention(self.model, folder, writer, loader, statistics, self.options)

    def _register(self, statistics: SubReporter, batch: Batch, result: Result) -> None:
        statistics.register(result.stats, result.weight)
        times = {"iter_time": batch.seconds, "forward_time": result.forward_time, "backward_time": result.backward_time}
        statistics.register(times)

    def _register_update(self, statistics: SubReporter, update: Update, seconds: float) -> None:
        """Register an update with its last batch, and the time in seconds since the update before."""
        if update.seconds is not None:
            clipped = 100.0 if update.norm > self.options.grad_clip else 0.0  # percent
            statistics.register({"grad_norm": update.norm, "clip": clipped, "optim_step_time": update.seconds})
        groups = ((i, j, group) for i, opt in enumerate(self.optimizers) for j, group in enumerate(opt.param_groups))
        rates = {f"optim{i}_lr{j}": group["lr"] for i, j, group in groups if "lr" in group}
        statistics.register({**rates, "train_time": seconds})

    def _log(self, statistics: SubReporter, total: int | None) -> None:
        """Log the statistics of the last batches, every `log_interval` batches."""
        interval = self.options.log_interval or (max(total // 20, 10) if total is not None else 100)
        if statistics.count % interval:
            return
        log.info(statistics.log_message(-interval))
        if writer := self.writers.get("train"):
            statistics.tensorboard_add_scalar(writer, -interval)
        if self.options.use_wandb and self.ranks.own == 0:
            statistics.wandb_log(-interval)

    def _open_writers(self, position: Position | None) -> None:
        """Open the writers of TensorBoard, which shows none of the batches that a run trains again."""
        from torch.utils.tensorboard import SummaryWriter  # takes a second

        before = self.reporter.stats.get(self.reporter.get_epoch(), {}).get("train", {})
        done = (position.statistics if position else before).get("total_count", 0)
        folder = self.output_dir / "tensorboard"
        self.writers = {phase: SummaryWriter(folder / phase, purge_step=done + 1) for phase in ("train", "valid")}

    def _save_within_epoch(self, batches: EpochBatches, done: int, statistics: SubReporter) -> None:
        """Save after an update if that is due, and end training if that was asked for."""
        interval = self.options.save_interval_steps
        stop = self._is_asked_to_stop()
        if stop or interval and done // interval > self.saved // interval and done != batches.total:
            self._save(self._position(batches, done, statistics), stop)

    def _position(self, batches: EpochBatches, done: int, statistics: SubReporter) -> Position:
        epoch = statistics.get_epoch()
        return Position(epoch, done, batches.digest, self.ranks.count, statistics_of(statistics))

    def _save(self, position: Position, stop: bool) -> None:
        self.saved = position.batches
        with self.stop.saving():
            if self.ranks.own == 0:
                self.state.save_position(position)
            self.ranks.largest(0)  # nobody ends before it is saved
        if stop:
            self.stop.end(f"in epoch {position.epoch} after {position.batches} batches")

    def _is_asked_to_stop(self) -> bool:
        """Return whether one of the processes was asked to stop; all of them call this at the same place."""
        if number := self.ranks.largest(self.stop.number):  # a signal during the call counts the next time
            self.stop.number = number
        return bool(number)


def ended(options: Options, reporter: Reporter) -> str:
    """The reason why no epoch is left to train, with advice; "" if one is."""
    done, criterion = reporter.get_epoch(), options.early_stopping_criterion
    if done >= options.max_epoch:
        key, message = "max_epoch", f"{done} are trained, and max_epoch is {options.max_epoch}"
    elif (
        options.patience is not None
        and reporter.has(*criterion[:2])
        and reporter.check_early_stopping(options.patience, *criterion)
    ):
        key, message = "patience", f"training ended early after epoch {done}, and patience is {options.patience}"
    else:
        return ""
    return f"no epoch is left: {message}; for more, give a greater {key} and --allow_changed {key}"


def _why_idle(batches: EpochBatches, bad: NonFiniteBatches, accum_grad: int) -> str:
    if batches.done < accum_grad:
        return f"it has {batches.done} batches, fewer than accum_grad {accum_grad}; lower accum_grad or the batch size"
    return bad.explain()
