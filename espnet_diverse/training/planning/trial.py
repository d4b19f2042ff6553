"""A model that computes single batches of a training with the parts of its loop, to count and to time them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from espnet2.tasks.abs_task import AbsTask
from espnet2.train.distributed_utils import DistributedOption
from numpy.typing import NDArray

from espnet_diverse.runs.config import Config
from espnet_diverse.runs.operations import Counter, Counts, resident
from espnet_diverse.training import espnet_command
from espnet_diverse.training.data.batch_types import read_shapes
from espnet_diverse.training.loop.cpu_layers import fast_on_cpu
from espnet_diverse.training.loop.epoch_batches import Batch
from espnet_diverse.training.loop.precision import mixed_precision
from espnet_diverse.training.loop.ranks import Ranks
from espnet_diverse.training.loop.run_length import tell_length_of_run
from espnet_diverse.training.loop.trainer import Trainer
from espnet_diverse.training.loop.updates import Updates

Rows = NDArray[np.int32]
_LINEAR = 1.5
"""Least ratio of the peaks of a batch and one of half its size, where these grow with the number of utterances."""


class Line(NamedTuple):
    """Counts of batches of utterances of one length, interpolated linearly between two numbers of utterances.

    Attributes:
        fixed: Counts of no utterances.
        further: Counts of each utterance.
        update: Counts of an update.
        least: Peak that a small batch has too, of gradients and the update.
    """

    fixed: Counts
    further: Counts
    update: Counts
    least: float

    def counts(self, number: int) -> Counts:
        """Counts of a batch of a number of utterances."""
        counts = self.fixed.plus(self.further, number)
        return counts._replace(peak=max(self.least, counts.peak))


class Trial:
    """A model with initial weights, and the batches of its training.

    Args:
        task: A task of `training/loop/tasks.py`.
        config: The configuration, as `stages.run_config` returns it.

    Attributes:
        args: Arguments of ESPnet's training command.
        lengths: Length of each training utterance, of the data that ESPnet sorts by.
        batches: Rows of each batch of an epoch, from the smallest to the largest with its padding.
        validation: Size with padding of the validation set, as a share of that of an epoch.
    """

    def __init__(self, task: type[AbsTask], config: Config):
        self.args = espnet_command.arguments(task, config)
        self.model, optimizers, schedulers = espnet_command.build(task, config)
        self.optimizers, options = optimizers, Trainer.build_options(self.args)
        self.updates = Updates(self.model, optimizers, schedulers, options, Ranks())
        factory, valid = (task.build_iter_factory(self.args, DistributedOption(), mode) for mode in ("train", "valid"))
        self._dataset, self._collate = factory.dataset, factory.collate_fn
        lengths, valid_lengths = (
            read_shapes(getattr(self.args, f"{mode}_shape_file"))[1][0].lengths for mode in ("train", "valid")
        )
        self.lengths = lengths
        self.batches: list[Rows] = sorted(factory.sampler, key=self.size)
        padded = sum(len(rows) * int(valid_lengths[rows].max()) for rows in valid.sampler)
        self.validation = padded / sum(map(self.size, self.batches))
        tell_length_of_run(self.model, len(self.batches), options)
        self.model.train()

    def size(self, rows: Rows) -> int:
        """Length of a batch with its padding."""
        return len(rows) * self.longest(rows)

    def longest(self, rows: Rows) -> int:
        """Length of the longest utterance of a batch."""
        return int(self.lengths[rows].max())

    def strata(self, number: int) -> list[Rows]:
        """Batches that stand for equal numbers of batches, from small to large ones."""
        number = min(number, len(self.batches))
        return [self.batches[int((position + 0.5) / number * len(self.batches))] for position in range(number)]

    def largest(self) -> Rows:
        """The batch that is largest with its padding; of equally large ones, that with the longest utterance."""
        return max(self.batches, key=lambda rows: (self.size(rows), self.longest(rows)))

    @staticmethod
    def share(rows: Rows, devices: int) -> int:
        """Number of utterances of a batch that a device gets, if several share it."""
        return -(-len(rows) // devices)

    def step(self, rows: Sequence[int] | Rows) -> None:
        """Read a batch and add its gradients to those of the parameters."""
        names, tensors = self._collate([self._dataset[row] for row in rows])
        self.updates.accumulate([Batch(list(names), tensors, 1, 0.0)], 1)

    def update(self) -> None:
        """Update the parameters."""
        self.updates.make(1)

    def resident(self) -> int:
        """Bytes of parameters, buffers and optimizer states; these exist after an update."""
        states = [dict(optimizer.state) for optimizer in self.optimizers]
        return resident(list(self.model.parameters()), list(self.model.buffers()), states)

    @contextmanager
    def training(self, fast: bool) -> Iterator[None]:
        """Compute as in training while the block runs; `fast` with the layers that it takes on a CPU."""
        half = mixed_precision(self.model, "cpu") if self.args.use_amp else nullcontext()
        with half, fast_on_cpu(self.model) if fast else nullcontext():
            yield

    def line(self, rows: Rows) -> Line:
        """Count small batches of utterances as long as the longest of a batch.

        They have two utterances or more, as some operations differ for a single one, and so many that their number
        decides the peak, not the size of the model.
        """
        row, size = max(rows, key=lambda row: self.lengths[row]), 2
        (small, update), (large, _) = self._counted([row] * size), self._counted([row] * 2 * size)
        least = small.peak
        while large.peak < _LINEAR * small.peak:
            size *= 2
            small, (large, _) = large, self._counted([row] * 2 * size)
        further = Counts().plus(large.plus(small, -1), 1 / size)
        return Line(small.plus(further, -size), further, update, least)

    def _counted(self, rows: Sequence[int]) -> tuple[Counts, Counts]:
        """Counts of a batch, whose peak is that of batch and update, and of the update."""
        with Counter() as counter:
            self.step(rows)
            step = counter.counts()
            self.update()
        both = counter.counts()
        return step._replace(peak=both.peak), both.plus(step, -1)

    def timed(self, strata: Sequence[Rows], rounds: int) -> tuple[float, float]:
        """Mean seconds of batches, and seconds of an update: medians of some rounds, after one more."""
        steps: list[list[float]] = [[] for _ in strata]
        updates: list[float] = []
        for _ in range(rounds + 1):
            for rows, durations in zip(strata, steps, strict=True):
                durations.append(_seconds(lambda rows=rows: self.step(rows)))
                updates.append(_seconds(self.update))
        return float(np.mean([median(durations[1:]) for durations in steps])), median(updates[len(strata) :])


def _seconds(call: Callable[[], None]) -> float:
    """CPU time, which other programs do not change; with several threads that of the clock."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    call()
    return clock() - start
