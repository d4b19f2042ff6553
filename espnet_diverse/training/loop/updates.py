"""One update: gradients of a group of batches, added up, changed, clipped, and given to the optimizers."""

import logging
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from espnet2.schedulers.abs_scheduler import AbsBatchStepScheduler
from espnet2.torch_utils.add_gradient_noise import add_gradient_noise
from espnet2.torch_utils.device_funcs import to_device
from espnet2.torch_utils.recursive_op import recursive_average
from espnet2.train.trainer import TrainerOptions
from torch import Tensor, nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import TrainingError
from espnet_diverse.runs.compilation import uncompiled
from espnet_diverse.scope import Step, scope
from espnet_diverse.training.data.seeds import seed_noise, seed_update
from espnet_diverse.training.loop.epoch_batches import Batch
from espnet_diverse.training.loop.halved_batch import Halvable
from espnet_diverse.training.loop.out_of_memory import SecondTries, out_of_memory
from espnet_diverse.training.loop.ranks import Ranks, parallel
from espnet_diverse.training.repulsion import Repulsion

log = logging.getLogger(__name__)


class Result(NamedTuple):
    """Statistics of a batch and their weight, over all processes, and the times of its passes in seconds.

    The names include statistics that are not measured in every batch.
    """

    names: list[str]
    stats: dict[str, Tensor]
    weight: Tensor
    forward_time: float
    backward_time: float


class Update(NamedTuple):
    """The norm of the gradients of an update, and the time that it took in seconds.

    The time is None where no update was made, because the norm or a loss is not finite.
    """

    norm: float
    seconds: float | None


class Updates:
    """Makes the updates of a training.

    Args:
        model: The model.
        optimizers: Its optimizers.
        schedulers: Schedulers of their learning rates, or None for each.
        options: Options of the trainer.
        ranks: The processes that train together.

    Attributes:
        made: Number of updates that were made.

    Raises:
        ConfigError: The model has no heads to repel.
    """

    def __init__(
        self, model: nn.Module, optimizers: Sequence, schedulers: Sequence, options: TrainerOptions, ranks: Ranks
    ):
        self.model, self.optimizers, self.schedulers = model, optimizers, schedulers
        self.options, self.ranks, self.made = options, ranks, 0
        self.device = "cuda" if options.ngpu else "cpu"
        self.repulsion = Repulsion(model, options.repulsion, options.seed) if options.repulsion else None
        self._parallel = parallel(Halvable(model, ranks.alone), ranks, options)
        self._tries = SecondTries(model, ranks)

    def accumulate(self, group: Sequence[Batch], epoch: int) -> list[Result]:
        """Add up the gradients of the batches of an update.

        Raises:
            TrainingError: Memory is too small for half a batch or a single utterance.
        """

        def begin() -> None:
            self.clear()
            # DistributedDataParallel leaves it False if the first forward pass after validation fails in one process.
            self._parallel.require_forward_param_sync = True
            seed_update(self.options.seed, epoch, group[0].number, self.ranks.own)

        def compute(batch: Batch, halved: bool) -> Result:
            return self._add_gradients(batch, halved, Step(self.made, batch.number, batch is group[0]))

        return self._tries.run(group, begin, compute)

    def _add_gradients(self, batch: Batch, halved: bool, step: Step) -> Result:
        """Add the gradients of a batch to the gradients of the parameters."""
        start = time.perf_counter()
        with scope(step=step):
            loss, stats, weight = self.forward(batch, halved)
        self._tries.end_forward(loss)
        names, local = list(stats), weight
        stats, weight = self.average(stats, weight)
        if not self.ranks.alone:
            loss = (loss * local.to(loss.dtype)).sum() / weight * self.ranks.count  # by which gradients are divided
        forwarded = time.perf_counter()
        (loss / self.options.accum_grad).backward()
        self._tries.end_backward()
        return Result(names, stats, weight, forwarded - start, time.perf_counter() - forwarded)

    def forward(self, batch: Batch, halved: bool = False) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Compute loss (1,), statistics (1,) and weight (1,) of a batch of this process."""
        tensors = to_device({**batch.tensors, "utt_id": batch.utterances}, self.device, non_blocking=True)
        host = {name: batch.tensors[name][:, 0].tolist() for name in CONDITIONS if name in batch.tensors}
        single = bool(self.options.compile) and len(batch.utterances) == 1
        precision = torch.autocast(self.device, torch.bfloat16, enabled=self.options.use_amp)
        with precision, scope(host=host), uncompiled(single):
            return self._parallel(tensors, halved)

    def average(self, stats: dict[str, Tensor | None], weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Average statistics over the processes; those not measured, which are None, are left out."""
        stats = {name: value.detach() for name, value in stats.items() if value is not None}
        return (stats, weight) if self.ranks.alone else recursive_average(stats, weight, distributed=True)

    def make(self, iteration: int, losses: Sequence[float] = ()) -> Update:
        """Update the parameters by their gradients, if these and the losses are finite, and clear the gradients.

        Args:
            iteration: Number of batches of the training until here.
            losses: Losses of the batches of the update, over all processes.

        Raises:
            TrainingError: Memory is too small for it.
        """
        options = self.options
        if options.grad_noise:
            seed_noise(options.seed, iteration)
            add_gradient_noise(self.model, iteration, duration=100, eta=1.0, scale_factor=0.55)
        if self.repulsion:
            self.repulsion(iteration)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), options.grad_clip, options.grad_clip_type))
        seconds, infinite = None, [value for value in losses if not math.isfinite(value)]
        if math.isfinite(norm) and not infinite:
            start = time.perf_counter()
            self._step()
            seconds = time.perf_counter() - start
            self.made += 1
        else:
            message = f"a loss is {infinite[0]}" if infinite else f"the norm of the gradients is {norm}"
            log.warning("%s; no update is made", message)
        self.clear()
        return Update(norm, seconds)

    def _step(self) -> None:
        try:
            for optimizer, scheduler in zip(self.optimizers, self.schedulers, strict=True):
                optimizer.step()
                if isinstance(scheduler, AbsBatchStepScheduler):
                    scheduler.step()
        except torch.OutOfMemoryError as error:
            message = f"{out_of_memory(error)} while parameters were updated; take a smaller model or batch_bins"
            raise TrainingError(message) from error

    def clear(self) -> None:
        """Clear the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
