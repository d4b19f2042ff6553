"""A counter of optimizer updates inside a module, which also holds the number of updates of the run."""

from weakref import ref

import torch
from torch import Tensor, nn

from espnet_diverse.scope import current

_UNSEEN = -1  # no version of a parameter


class UpdateCounter(nn.Module):
    """Counts optimizer updates in a float buffer, which checkpoint averaging averages like the weights.

    Our training loop gives their number in the scope of each batch (`scope.Step`). Other loops, such as ESPnet's
    trainer and Lightning, do not, and a forward pass is not an update: gradients accumulate over several passes,
    validation and plots run more of them, and a step with non-finite gradients is skipped. An optimizer step changes
    the watched parameter in place, which raises autograd's version counter of the tensor. There, an update is counted
    in the first forward pass in training that sees a new version.

    PyTorch's fused optimizers do not raise the version counter. In a training loop of your own that uses one, open
    `scope(step=Step(updates, batch))` around the forward pass, or call `torch.autograd.graph.increment_version` after
    the steps.

    Args:
        spans: Lengths of schedules in updates, as options give them. One that is a share of the run, see `is_share`,
            needs the number of updates of the run, which is then a second buffer, `of_run`: training writes it with
            `set_updates_of_run`, and a checkpoint keeps it, because evaluation depends on it.
    """

    count: Tensor
    of_run: Tensor

    def __init__(self, *spans: float | None):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.is_used = any(spans)
        self.share = next((span for span in spans if is_share(span)), None)
        if self.share is not None:
            self.register_buffer("of_run", torch.zeros(()))
        self.before = 0.0  # updates of the training that this one continues, which the steps of the scope leave out
        self._told = False
        self._seen: int | None = None  # not `_version`, which a module has for its state dict
        self._watched: ref[Tensor] | None = None

    def forward(self, watched: Tensor) -> Tensor:
        """Return the number of updates (); in training, the scope's number, or one more if `watched` has changed.

        Raises:
            ValueError: The scope has no step, and `watched` is frozen before anything was counted.
        """
        if not self.training or in_backward():
            return self.count
        if (step := current().step) is not None:
            self.count = torch.full_like(self.count, self.before + step.updates)
        else:
            if self._seen is None and self.is_used and not watched.requires_grad:
                raise ValueError(
                    "a schedule counts the updates of a parameter that is frozen, so it would stay at its start; open "
                    "espnet_diverse.scope.scope(step=Step(updates, batch)) around the forward pass"
                )
            if self._seen is not None and self._seen != watched._version:
                self.count = self.count + 1
            self._seen, self._watched = watched._version, ref(watched)
        return self.count

    def mark_start(self) -> None:
        """Continue from the present count in a run whose steps begin at 0.

        A schedule that is a share of the run keeps its length from the run before.
        """
        self.before = float(self.count)

    def __getstate__(self) -> dict:
        """Return the state for a copy, whose parameters have other versions: only whether an update is uncounted."""
        watched = self._watched() if self._watched else None
        behind = self._seen == _UNSEEN or (watched is not None and watched._version != self._seen)
        return {**self.__dict__, "_seen": _UNSEEN if behind else None, "_watched": None}

    def length(self, span: float) -> float | Tensor:
        """Return the length of a schedule in updates: `span`, or its share of the run.

        Raises:
            ValueError: It is a share, the module is in training, and the number of updates of the run is not known.
        """
        if not is_share(span):
            return span
        if self.training and not self._told:
            raise ValueError(
                f"a schedule of {span} is a share of the updates of a run, whose number is not known; call "
                "espnet_diverse.attention.set_updates_of_run(model, updates) first, or give the schedule in updates"
            )
        return (span * self.of_run).clamp(min=1)

    def _apply(self, fn, *args, **kwargs):
        """Move to another device or type, but not to half precision, which counts to 256 or holds up to 65504."""

        def applied(buffer: Tensor) -> Tensor:
            moved = fn(buffer)
            return buffer.to(moved.device) if moved.dtype in (torch.bfloat16, torch.float16) else moved

        return super()._apply(applied, *args, **kwargs)

    def _load_from_state_dict(self, *args, **kwargs):
        """Load the count without counting the loading, which also changes the watched parameter, as an update.

        A checkpoint is most often written after an update that no forward pass has seen yet. A training loop that gives
        no step and continues from it counts one update in its first forward pass.
        """
        super()._load_from_state_dict(*args, **kwargs)
        self._seen, self._watched = _UNSEEN if self.count > 0 else None, None
        self._told = self.share is not None and bool(self.of_run > 0)


def in_backward() -> bool:
    """Return whether a backward pass is recomputing a layer of the forward pass (gradient checkpointing)."""
    return torch._C._current_graph_task_id() != -1


def update_counters(model: nn.Module) -> list[UpdateCounter]:
    """Return the counters of a model, in the order of its modules."""
    return [module for module in model.modules() if isinstance(module, UpdateCounter)]


def is_share(span: float | None) -> bool:
    """Return whether the length of a schedule is a share of all updates of a run, which is a number between 0 and 1."""
    return span is not None and 0 < span < 1


def counters_by_share(model: nn.Module) -> list[UpdateCounter]:
    """Return the counters of a model that need the number of updates of the run."""
    return [counter for counter in update_counters(model) if counter.share is not None]


def set_updates_of_run(model: nn.Module, updates: int) -> None:
    """Set the number of optimizer updates of the whole run for the schedules of a model; `train` does so itself.

    Args:
        model: Any module that contains attention.
        updates: The number, including updates before a resumption.

    Raises:
        ValueError: The number is not positive.
    """
    if updates < 1:
        raise ValueError(f"a run of {updates} updates has no schedule; give at least 1")
    for counter in counters_by_share(model):
        if not (counter.before and counter._told):  # else `mark_start` has kept the run before
            counter.of_run.fill_(updates)
            counter._told = True
