"""State of a training: saved and restored after each epoch, as in ESPnet, within an epoch, and on a stop.

A checkpoint is one of ESPnet with the number of updates and the base learning rates; a checkpoint within an epoch also
has a `Position`: the number of finished batches, and their statistics. A run continues at the next batch without
reading the finished ones, and bit for bit on a CPU, because random numbers depend only on the place in the training
(`seeds.py`). With another number of processes the remaining batches are distributed over these.

What is frozen in the model is saved once (`runs/stored/frozen_part.py`). It is found by digests of all tensors that are
not trained, so one that changes nevertheless, such as a statistic of batch norm, is saved with the others.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

import torch
from espnet2.schedulers.abs_scheduler import AbsScheduler
from espnet2.train.reporter import Average, Reporter, SubReporter, WeightedAverage
from torch import nn

from espnet_diverse.attention.update_counter import update_counters
from espnet_diverse.data.files.atomic_files import scratch_directory
from espnet_diverse.errors import ModelError, TrainingError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.lora import merges, unmerged
from espnet_diverse.runs.stored.frozen_part import FROZEN, LOW_RANK, file_beside, tensor_digests
from espnet_diverse.training.checkpoints.averaging import rank_epochs
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.checkpoints.run_identity import KEY, identity_of

log = logging.getLogger(__name__)

_POSITION, _RATES, _UPDATES = "within_epoch", "base_learning_rates", "updates"
_BEFORE = "updates_before"  # updates of a trained model that the run continues, by counter


class Updated(Protocol):
    """A model with the optimizers and schedulers that update it, and the number of updates that were made."""

    model: nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    schedulers: Sequence[AbsScheduler | None]
    made: int


class RunState:
    """The parts of a run that its checkpoints hold.

    Args:
        output_dir: Directory of the run.
        updates: The model, its optimizers and schedulers, and the number of updates.
        reporter: ESPnet's reporter of the run.
        criteria: `best_model_criterion`: phase, name and mode of each.
    """

    def __init__(self, output_dir: Path, updates: Updated, reporter: Reporter, criteria: Sequence[Sequence[str]] = ()):
        self.output_dir, self.updates, self.reporter, self.criteria = output_dir, updates, reporter, criteria
        self.model, self.optimizers, self.schedulers = updates.model, updates.optimizers, updates.schedulers
        self._identity = identity_of(output_dir)
        self._frozen: dict[str, str] | None = None  # digests of the tensors of the frozen part, once it is saved
        self._rates = [[_base_rate(group) for group in optimizer.param_groups] for optimizer in self.optimizers]

    def save_position(self, position: Position) -> None:
        """Save a checkpoint within an epoch.

        Raises:
            ModelError: There is no room for it.
            TrainingError: A parameter is not finite.
        """
        check_finite(self.model, position.epoch)
        stats = {epoch: phases for epoch, phases in self.reporter.stats.items() if epoch < position.epoch}
        with self._model() as model:
            self._save({"stats": stats, "epoch": position.epoch - 1}, {**model, _POSITION: asdict(position)})

    def save_epoch(self, keep: int) -> None:
        """Save the checkpoint and the weights of an epoch, make the links, and remove weights that are not kept.

        Args:
            keep: Number of the best epochs by each criterion whose weights are kept, besides the last.

        Raises:
            ModelError: There is no room for them.
        """
        record = self.reporter.state_dict()
        with self._model() as model:
            self._save(record, model)
            self._save_weights(record["epoch"], model)
        self._link(record)
        best = {epoch for ranked in self._ranked(record["stats"]).values() for epoch in ranked[:keep]}
        removed = [self._weights(epoch) for epoch in range(1, record["epoch"]) if epoch not in best]
        for path in removed:
            path.unlink(missing_ok=True)

    def _save(self, record: Mapping, entries: Mapping) -> None:
        """Save a checkpoint as ESPnet does, and keep the one before it."""
        state = {
            "reporter": record,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedulers": [scheduler and scheduler.state_dict() for scheduler in self.schedulers],
            "scaler": None,
            _RATES: self._rates,
            _UPDATES: self.updates.made,
            _BEFORE: [counter.before for counter in update_counters(self.model)],
            KEY: self._identity,
        }
        path = self.output_dir / checkpoint.CHECKPOINT
        checkpoint.save({**state, **entries}, path, former=path.with_name(checkpoint.PREVIOUS))

    def _save_weights(self, epoch: int, model: Mapping) -> None:
        checkpoint.save(model if FROZEN in model else model["model"], self._weights(epoch))

    @contextmanager
    def _model(self) -> Iterator[dict]:
        """Entries of a checkpoint with what is not frozen in the model, whose frozen part is saved."""
        trained = {name for name, p in self.model.named_parameters(remove_duplicate=False) if p.requires_grad}
        with unmerged(self.model):
            state = self.model.state_dict()
            if all(parameter.requires_grad for parameter in self.model.parameters()):
                yield {"model": state}
                return
            frozen = {name: tensor for name, tensor in state.items() if name not in trained}
            present = tensor_digests(frozen)
            if self._frozen is None:
                self._frozen = present
                checkpoint.save(frozen, file_beside(self.output_dir / checkpoint.CHECKPOINT, present))
            same = {name for name, digest in self._frozen.items() if present.get(name) == digest}
            remaining = {name: tensor for name, tensor in state.items() if name not in same}
            yield {"model": remaining, FROZEN: self._frozen, LOW_RANK: merges(self.model)}

    def restore(self, device: str | torch.device) -> Position | None:
        """Restore the state of the newest sound checkpoint, and write the files of its epoch that a kill prevented.

        Learning rates come from the configuration if they have changed since the checkpoint was saved.

        Returns:
            The position within an epoch where the run continues; None between epochs and without a checkpoint.

        Raises:
            ModelError: The checkpoint is damaged, or does not fit; see `checkpoint` and `check_version`.
        """
        if not checkpoint.has_run(self.output_dir):
            return None
        state, path = checkpoint.load_run(self.output_dir, device)
        check_version(state, path)
        checkpoint.check_fit(state, path, self.model, self.optimizers, self.schedulers)
        _rescale(state, state[_RATES], self._rates)
        self._frozen = state.get(FROZEN)
        with unmerged(self.model) if self._frozen else nullcontext():
            checkpoint.load_strict(self.model, state["model"], path)
        self.reporter.load_state_dict(state["reporter"])
        parts, saved_parts = (*self.optimizers, *self.schedulers), (*state["optimizers"], *state["schedulers"])
        for part, saved in zip(parts, saved_parts, strict=True):
            if part is not None:
                part.load_state_dict(saved)
        self.updates.made = state[_UPDATES]
        counters = update_counters(self.model)
        for counter, before in zip(counters, chain(state.get(_BEFORE) or (), repeat(0.0)), strict=False):
            counter.before = before
        log.info("training is resumed from %s", path)
        if position := state.get(_POSITION):
            return Position(**position)
        if not self._weights(epoch := state["reporter"]["epoch"]).is_file():
            with self._model() as model:
                self._save_weights(epoch, model)
        self._link(state["reporter"])
        return None

    def _weights(self, epoch: int) -> Path:
        return self.output_dir / f"{epoch}epoch.pth"

    def _ranked(self, stats: Mapping) -> dict[str, list[int]]:
        """Epochs from best to worst by each criterion."""
        return {f"{phase}.{name}": rank_epochs(stats, f"{phase}.{name}", mode) for phase, name, mode in self.criteria}

    def _link(self, record: Mapping) -> None:
        """Make the links to the last and the best epochs."""
        links = {"latest": record["epoch"]}
        links |= {f"{metric}.best": ranked[0] for metric, ranked in self._ranked(record["stats"]).items() if ranked}
        for name, epoch in links.items():
            link, weights = self.output_dir / f"{name}.pth", self._weights(epoch)
            if weights.is_file() and link.resolve() != weights.resolve():
                with scratch_directory(link) as folder:
                    (folder / name).symlink_to(weights.name)
                    (folder / name).replace(link)


def check_version(state: Mapping, source: str | Path) -> None:
    """Check that a checkpoint is of this version's loop, which draws other random numbers than earlier ones.

    Args:
        state: The checkpoint.
        source: Its file, for messages.

    Raises:
        ModelError: It is of an earlier version or of ESPnet.
    """
    if _UPDATES not in state:
        raise ModelError(
            f"{source}: was saved by version 0.2.0 or earlier, or by ESPnet, and this version would draw other random "
            "numbers; finish the run with that version, or start another one from its weights with init_param"
        )


def check_finite(model: nn.Module, epoch: int) -> None:
    """Check that parameters and buffers are finite, before they are saved.

    Raises:
        TrainingError: One is not; the message names it.
    """
    known = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    finite = torch.stack([torch.isfinite(tensor).all() for tensor in known.values()]).tolist() if known else []
    for name in (name for name, is_finite in zip(known, finite, strict=True) if not is_finite):
        raise TrainingError(
            f"epoch {epoch}: {name} is no longer finite, and was not saved; training diverged: lower the learning "
            "rate or check the data"
        )


def statistics_of(reporter: SubReporter) -> dict:
    """The statistics of the batches of an epoch so far, as tensors."""
    stats = {}
    for name, values in reporter.stats.items():
        numbers = torch.tensor([value.value for value in values], dtype=torch.float64)
        weighted = isinstance(values[0], WeightedAverage)
        weights = torch.tensor([value.weight for value in values], dtype=torch.float64) if weighted else None
        stats[name] = (numbers, weights)
    return {"count": reporter.count, "total_count": reporter.total_count, "stats": stats}


def restore_statistics(reporter: SubReporter, statistics: Mapping) -> None:
    """Give the reporter of an epoch the statistics of batches that were done before."""
    reporter.count, reporter.total_count = statistics["count"], statistics["total_count"]
    for name, (numbers, weights) in statistics["stats"].items():
        if weights is None:
            reporter.stats[name] = [Average(number) for number in numbers.tolist()]
        else:
            pairs = zip(numbers.tolist(), weights.tolist(), strict=True)
            reporter.stats[name] = [WeightedAverage(number, weight) for number, weight in pairs]


def _base_rate(group: Mapping) -> float:
    return float(group.get("initial_lr", group["lr"]))


def _rescale(state: dict, old: Sequence[Sequence[float]], new: Sequence[Sequence[float]]) -> None:
    """Change the learning rates in a checkpoint in place: the present ones, and the base rates of the schedulers."""
    if old == new:
        return
    pairs = zip(state["optimizers"], state["schedulers"], old, new, strict=True)
    for optimizer, scheduler, before, after in pairs:
        for group, former, present in zip(optimizer["param_groups"], before, after, strict=True):
            for key in ("lr", "initial_lr"):
                if key in group:
                    group[key] *= present / former
        if scheduler and "base_lrs" in scheduler:
            scheduler["base_lrs"] = list(after)
    log.warning("learning rates continue with base %s instead of %s", new, old)
