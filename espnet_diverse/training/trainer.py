"""ESPnet's trainer with progress, safe checkpoints, and errors where training fails numerically."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from types import ModuleType

import numpy as np
import torch
from espnet2.train import trainer as espnet_trainer
from espnet2.train.reporter import SubReporter
from torch import nn

from espnet_diverse.errors import TrainingError
from espnet_diverse.progress import progress
from espnet_diverse.registration import replaced_names
from espnet_diverse.training import checkpoint
from espnet_diverse.training.averaging import average_best
from espnet_diverse.training.cpu_layers import fast_on_cpu
from espnet_diverse.training.diagnosis import monitored_parts
from espnet_diverse.training.epoch_table import EpochTable
from espnet_diverse.training.length_check import check_lengths, shape_files
from espnet_diverse.training.precision import compile_layers, mixed_precision
from espnet_diverse.training.repulsion import read_repulsion, repelled
from espnet_diverse.training.run_length import tell_length_of_run


class Trainer(espnet_trainer.Trainer):
    """ESPnet's trainer; its loop is unchanged, but some functions that it calls by a global name are replaced."""

    @classmethod
    def build_options(cls, args: Namespace) -> espnet_trainer.TrainerOptions:
        """ESPnet's options, our `compile` and `repulsion`, and the shape files of the data."""
        options = super().build_options(args)
        options.compile = args.compile
        options.repulsion = read_repulsion(args.repulsion)
        options.shape_files = shape_files(args)
        return options

    @classmethod
    def run(cls, model, trainer_options, **parts) -> None:
        """Train; the arguments are those of ESPnet's `run`.

        Raises:
            ConfigError: This machine does not support bfloat16 or compilation, or the model has no heads to repel.
            DataError: An utterance is longer than a core of the model supports.
            TrainingError: An epoch made no update, or a parameter or the validation loss is not finite.
        """
        check_lengths(model, trainer_options.shape_files)
        device = "cuda" if trainer_options.ngpu else "cpu"
        if trainer_options.compile:
            compile_layers(model, trainer_options.compile)
        table = partial(EpochTable, monitored_parts(model), trainer_options.max_epoch)
        with (
            replaced_names(espnet_trainer, torch=_Torch(), Reporter=table, average_nbest_models=average_best),
            mixed_precision(model, device) if trainer_options.use_amp else nullcontext(),
            repelled(model, trainer_options),
        ):
            super().run(model=model, trainer_options=trainer_options, **parts)

    @classmethod
    def train_one_epoch(cls, model, iterator, reporter, options, **parts) -> bool:
        """Train one epoch; check that it made an update and that parameters are finite before anything is saved."""
        epoch = reporter.get_epoch()
        tell_length_of_run(model, iterator, options)
        steps = _Steps(iterator, f"train epoch {epoch} of {options.max_epoch}", reporter)
        with fast_on_cpu(model):
            idle = super().train_one_epoch(model=model, iterator=steps, reporter=reporter, options=options, **parts)
        if idle:
            raise TrainingError(f"epoch {epoch}: no update was made; {_why_idle(steps, options.accum_grad)}")
        _check_finite(model, epoch)
        return idle

    @classmethod
    def validate_one_epoch(cls, model, iterator, reporter, options, **parts) -> None:
        """Validate; check that the loss, by which the best epochs are chosen, is finite."""
        epoch = reporter.get_epoch()
        steps = _Steps(iterator, f"valid epoch {epoch} of {options.max_epoch}", reporter)
        with fast_on_cpu(model):
            super().validate_one_epoch(model=model, iterator=steps, reporter=reporter, options=options, **parts)
        if steps.bad:
            raise TrainingError(f"epoch {epoch}: the validation loss is not finite, first of {_named(steps.bad)}")


class _Torch(ModuleType):
    """`torch` for ESPnet's trainer: checkpoints are written atomically and read without running code."""

    def __init__(self):
        super().__init__("torch")
        self.save = checkpoint.save

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def load(path, map_location="cpu", weights_only=True):
        return checkpoint.load(path, map_location)


class _Steps:
    """The iterator of an epoch; shows its progress and keeps the first batch whose loss was not finite.

    ESPnet registers the statistics of a batch before it requests the next one.
    """

    def __init__(self, iterator, name: str, reporter: SubReporter):
        self.iterator, self.name, self.reporter = iterator, name, reporter
        self.count = 0
        self.last: list[str] = []
        self.bad: list[str] = []

    def __len__(self) -> int:
        return len(self.iterator)

    def __iter__(self) -> Iterator[tuple[list[str], dict[str, torch.Tensor]]]:
        for utterances, batch in progress(self.iterator, self.name, unit="step"):
            self.last = utterances
            yield utterances, batch
            self.count += 1
            losses = self.reporter.stats.get("loss")
            if losses and not self.bad and not np.isfinite(losses[-1].value):
                self.bad = utterances


def _why_idle(steps: _Steps, accum_grad: int) -> str:
    if steps.count < accum_grad:
        return f"it has {steps.count} batches, fewer than accum_grad {accum_grad}; lower accum_grad or the batch size"
    advice = "check their audio and transcripts, or lower the learning rate"
    if steps.bad:
        return f"the loss is not finite, first of {_named(steps.bad)}; {advice}"
    return f"the gradients are not finite, last of {_named(steps.last)}; {advice}"


def _named(utterances: list[str], limit: int = 5) -> str:
    more = f" and {len(utterances) - limit} more" if len(utterances) > limit else ""
    return f"utterances {' '.join(utterances[:limit])}{more}"


def _check_finite(model: nn.Module, epoch: int) -> None:
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise TrainingError(
                f"epoch {epoch}: {name} is no longer finite; nothing of this epoch was saved: "
                "lower the learning rate or check the data"
            )
