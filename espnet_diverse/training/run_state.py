"""State of a training: saved and restored after each epoch, as in ESPnet, within an epoch, and on a stop.

A checkpoint within an epoch is one of ESPnet with an entry more, `Position`: how many batches are done, their
statistics, and the states of the random number generators of each process. To go on, the batches that are done are
read again and skipped, which brings the sampler and the workers where they were; then the generators are set. On a CPU
the run goes on bit for bit. With another number of processes the rest of the batches is dealt to these.
"""

import hashlib
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.train.reporter import Average, Reporter, SubReporter, WeightedAverage
from torch import nn

from espnet_diverse.attention.update_counter import set_updates_behind, updates_behind
from espnet_diverse.data.atomic_files import staged_file
from espnet_diverse.errors import TrainingError
from espnet_diverse.nets.models import Diverse
from espnet_diverse.training import checkpoint
from espnet_diverse.training.averaging import rank_epochs
from espnet_diverse.training.lora import merged

_POSITION, _RATES, _MEASURING, _BEHIND = "within_epoch", "base_learning_rates", "measuring", "updates_behind"


@dataclass(frozen=True)
class Position:
    """A place within an epoch, between two updates.

    Attributes:
        epoch: Number of the epoch.
        batches: Number of batches that are done.
        names: Digest of the names of their utterances, see `Names`.
        updated: Whether an update was made in the epoch.
        statistics: `statistics_of` the epoch so far.
        generators: `generator_states` at this place of each process, by rank.
    """

    epoch: int
    batches: int
    names: int
    updated: bool
    statistics: dict
    generators: list[dict]


class RunState:
    """The parts of a run that its checkpoints hold.

    Args:
        output_dir: Directory of the run.
        model: The model.
        optimizers: Its optimizers, before a checkpoint is loaded.
        schedulers: Schedulers of their learning rates, or None for each.
        criteria: `best_model_criterion`: phase, name and mode of each.

    Attributes:
        reporter: ESPnet's reporter of the run, once it is made.
        scaler: ESPnet's scaler of the loss, or None.
    """

    def __init__(
        self,
        output_dir: Path,
        model: nn.Module,
        optimizers: Sequence,
        schedulers: Sequence,
        criteria: Sequence[Sequence[str]] = (),
    ):
        self.output_dir, self.model = output_dir, model
        self.optimizers, self.schedulers, self.criteria = optimizers, schedulers, criteria
        self.reporter: Reporter | None = None
        self.scaler: Any = None
        self._rates = [[_base_rate(group) for group in optimizer.param_groups] for optimizer in optimizers]
        self._position: Position | None = None
        self._resumed = False
        self._behind: list[bool] | None = None

    def save(self, state: Mapping, path: str | Path) -> None:
        """Save what ESPnet saves: two generations of the checkpoint, and other files as they are."""
        path = Path(path)
        if path.name == checkpoint.CHECKPOINT:
            own: dict[str, Any] = {_RATES: self._rates, _BEHIND: updates_behind(self.model)}
            if isinstance(self.model, Diverse):
                own[_MEASURING] = self.model.measuring_state()
            checkpoint.save({**state, **own}, path, former=path.with_name(checkpoint.PREVIOUS))
        else:
            checkpoint.save(state, path)

    def save_position(self, position: Position) -> None:
        """Save a checkpoint within an epoch.

        Raises:
            TrainingError: A parameter is not finite.
        """
        check_finite(self.model, position.epoch)
        state = {
            "model": self.model.state_dict(),
            "reporter": {**self.reporter.state_dict(), "epoch": position.epoch - 1},
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedulers": [scheduler and scheduler.state_dict() for scheduler in self.schedulers],
            "scaler": self.scaler and self.scaler.state_dict(),
            _POSITION: asdict(position),
        }
        state["reporter"]["stats"] = {e: s for e, s in self.reporter.stats.items() if e < position.epoch}
        with merged(self.model):
            self.save(state, self.output_dir / checkpoint.CHECKPOINT)

    def load(self, path: str | Path, device: str | torch.device) -> dict:
        """Read a checkpoint for ESPnet; keep its position, and write the files of its epoch that a kill prevented.

        Learning rates are those of the configuration, if these are others than when the checkpoint was saved.

        Raises:
            ModelError: The checkpoint is damaged, or does not fit; see `checkpoint`.
        """
        state = checkpoint.load(path, device)
        checkpoint.check_fit(state, path, self.model, self.optimizers, self.schedulers)
        state["model"] = dict(state["model"])  # without what PyTorch notes beside it
        position = state.pop(_POSITION, None)
        _rescale(state, state.pop(_RATES, None) or self._rates, self._rates)
        measuring = state.pop(_MEASURING, None)  # which former checkpoints lack
        if measuring and isinstance(self.model, Diverse):
            self.model.load_measuring_state(measuring)
        self._resumed, self._behind = True, state.pop(_BEHIND, None)
        if position:
            self._position = Position(**position)
            return state
        weights = self._weights(state["reporter"]["epoch"])
        if not weights.is_file():
            checkpoint.save(state["model"], weights)
        self._link(state["reporter"])
        return state

    def _weights(self, epoch: int) -> Path:
        return self.output_dir / f"{epoch}epoch.pth"

    def _link(self, record: Mapping) -> None:
        """Make the links to the last and the best epochs, as ESPnet does after it has saved the state of an epoch."""
        links = {"latest": record["epoch"]}
        for phase, name, mode in self.criteria:
            metric = f"{phase}.{name}"
            links |= {f"{metric}.best": epoch for epoch in rank_epochs(record["stats"], metric, mode)[:1]}
        for name, epoch in links.items():
            link, weights = self.output_dir / f"{name}.pth", self._weights(epoch)
            if weights.is_file() and link.resolve() != weights.resolve():
                with staged_file(link) as partial:  # one at a time, of several processes
                    partial.symlink_to(weights.name)

    def take_position(self, epoch: int) -> Position | None:
        """The position from which `epoch` goes on, once; None if it begins anew."""
        position, self._position = self._position, None
        if self._resumed and self._behind is not None:
            set_updates_behind(self.model, self._behind)
        elif self._resumed and (position is None or position.updated or epoch > 1):  # of a former checkpoint
            set_updates_behind(self.model, True)
        self._resumed = False
        return position if position and position.epoch == epoch else None


class Names:
    """A digest of the names of the utterances in batches, and of their order.

    Args:
        shard: Rank of this process and number of processes; of every batch, the process with rank r of n has the
            utterances r, r + n, r + 2 n, ...

    Attributes:
        value: A sum over utterances, so that the sum over the processes is the value of one process.
    """

    def __init__(self, shard: tuple[int, int] = (0, 1)):
        self.value, self._batches, self._shard = 0, 0, shard

    def add(self, utterances: Sequence[str]) -> None:
        """Add those of a batch that this process has."""
        rank, count = self._shard
        self._batches += 1
        for number, name in enumerate(utterances):
            digest = hashlib.sha256(f"{self._batches} {rank + number * count} {name}".encode()).digest()
            self.value += int.from_bytes(digest[:4], "big")  # of 2^30 utterances the sum is below 2^63


def check_finite(model: nn.Module, epoch: int) -> None:
    """Check that parameters and buffers are finite, before they are saved.

    Raises:
        TrainingError: One is not; the message names it.
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
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


def generator_states() -> dict:
    """States of the random number generators of Python, NumPy and PyTorch, with that of the GPU of this process."""
    name, keys, *rest = np.random.get_state()
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else []  # training on a CPU leaves GPUs alone
    numpy = (name, torch.from_numpy(keys.astype(np.int64)), *rest)
    return {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state(), "cuda": cuda}


def restore_generators(states: Mapping) -> None:
    """Set the random number generators."""
    version, keys, gauss = states["python"]
    random.setstate((version, tuple(keys), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states["torch"].cpu())
    if torch.cuda.is_initialized() and states["cuda"]:
        own = min(torch.cuda.current_device(), len(states["cuda"]) - 1)  # former checkpoints have those of all GPUs
        torch.cuda.set_rng_state(states["cuda"][own].cpu())


def _base_rate(group: Mapping) -> float:
    return float(group.get("initial_lr", group["lr"]))


def _rescale(state: dict, old: Sequence[Sequence[float]], new: Sequence[Sequence[float]]) -> None:
    """Change the learning rates in a checkpoint in place: those of now, and the base rates of the schedulers."""
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
    logging.warning("learning rates go on with base %s in place of %s", new, old)
