"""Hours, memory and disk of a training on a device, from counts of some of its batches; on this CPU also timed."""

import os
from dataclasses import dataclass

import numpy as np

from espnet_diverse import portable
from espnet_diverse.runs.operations import Counts
from espnet_diverse.training.planning.devices import CONTEXT, Device
from espnet_diverse.training.planning.trial import Line, Trial
from espnet_diverse.untrusted.whole_files import read_text

STRATA = 5
"""Number of batches that stand for those of an epoch."""
_ROUNDS = 2
_FORWARD = 1 / 3
"""Share of a training step that validation needs for the same data: a backward pass is two products for each one."""
_CACHES = 0.7e9
"""Bytes that a training on a CPU needs besides tensors: kernels of oneDNN for each shape, and gaps between what malloc
has given. Measured on one run of model/small."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Time, memory and disk of a training on a device.

    Attributes:
        trial: The model and its batches.
        counts: Counts of a training step on a device, on average over batches.
        step, update: Seconds of a batch and of an update.
        base: Bytes of a device besides tensors.
        line: Counts of utterances as long as the longest of the largest batch.
        memory: Bytes that a device has.
        devices: Number of devices.
    """

    trial: Trial
    counts: Counts
    step: float
    update: float
    base: float
    line: Line
    memory: float
    devices: int = 1

    @property
    def epoch(self) -> float:
        """Seconds of an epoch with its validation."""
        an_update = self.update / self.trial.args.accum_grad
        return len(self.trial.batches) * (self.step + an_update) * (1 + _FORWARD * self.trial.validation)

    @property
    def tensors(self) -> float:
        """Bytes of a device in parameters, states of the optimizer, gradients and activations."""
        return self.trial.resident() + self.line.counts(self.trial.share(self.trial.largest(), self.devices)).peak

    @property
    def peak(self) -> float:
        """Bytes of a device."""
        return self.base + self.tensors

    @property
    def largest(self) -> int:
        """Number of utterances of the largest batch that fits in memory, each as long as the longest one."""
        available = self.memory - self.base - self.trial.resident() - self.line.fixed.peak
        return max(0, int(available / self.line.further.peak)) * self.devices

    @property
    def disk(self) -> float:
        """Bytes of the epochs that a run keeps, of their averages, and of its checkpoint."""
        nbest, criteria = self.trial.args.keep_nbest_models, len(self.trial.args.best_model_criterion)
        most = max(nbest) if isinstance(nbest, list) else nbest
        weights = sum(tensor.numel() * tensor.element_size() for tensor in self.trial.model.state_dict().values())
        return weights * criteria * (most + 1) + self.trial.resident()


def estimate(trial: Trial, device: Device | None = None, devices: int = 1, process: int = 0) -> Estimate:
    """Estimate a training.

    Args:
        trial: The model and its batches.
        device: The GPU; None for this CPU, on which some batches are also timed.
        devices: Number of GPUs of one machine, each of which takes a share of every batch.
        process: Bytes of the process before the model was built, see `process_memory`.
    """
    strata, half = trial.strata(STRATA), bool(trial.args.use_amp)
    with trial.training(fast=device is None):
        trial.step(trial.batches[0][:1])
        trial.update()  # makes the states of the optimizer
        lines = [trial.line(rows) for rows in strata]
        largest = trial.line(trial.largest())
        steps = [line.counts(trial.share(rows, devices)) for rows, line in zip(strata, lines, strict=True)]
        if device is None:
            seconds = trial.timed(strata, _ROUNDS)
            base, memory = process + _CACHES, float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        else:
            gradients = sum(parameter.nbytes for parameter in trial.model.parameters() if parameter.requires_grad)
            exchange = 2 * (devices - 1) / devices * gradients / device.link
            step = float(np.mean([device.seconds(counts, half) for counts in steps]))
            seconds = step + exchange, device.seconds(largest.update, half)
            base, memory = CONTEXT, device.memory
    return Estimate(
        trial=trial,
        counts=Counts(*np.mean(steps, axis=0)).plus(largest.update),
        step=seconds[0],
        update=seconds[1],
        base=base,
        line=largest,
        memory=memory,
        devices=devices,
    )


def process_memory() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    file = portable.PROC / "self" / "statm"
    return int(read_text(file).split()[1]) * os.sysconf("SC_PAGE_SIZE") if file.is_file() else 0
