"""Allowed content of files of weights and of run states, which becomes file names, sizes, indices and memory.

`check_content` checks a file alone, `check_fit` compares a state with the model and its training. Both are called
before any of it is used.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from espnet_diverse.runs.stored.frozen_part import FROZEN, LOW_RANK
from espnet_diverse.runs.stored.schema import (
    Check,
    MisfitError,
    dense,
    described,
    exactly,
    fields,
    finite,
    like,
    name,
    number,
    optional,
    row,
    sequence,
    table,
    tensor,
    whole,
)

_LEAST_RATE = 1e-30  # by which others are divided
_LONGEST = 1e10  # seconds of an epoch
_SHARED = 4  # times that an element may occur in weights on average, as in tied embeddings


def _statistic(value: Any, place: str) -> None:
    """Check a statistic of an epoch; ESPnet adds the time that it took, once as an object, now as a mapping."""
    if isinstance(value, dict):
        fields({"__timedelta_seconds__": finite(0, _LONGEST)}, closed=True)(value, place)
    elif not isinstance(value, timedelta):
        number(value, place)


def _phase(value: Any, place: str) -> None:
    table(name, _statistic)(value, place)
    fields({}, {"total_count": whole()})(value, place)


def _numbers_of_batches(value: dict, place: str) -> None:
    """Check the statistics of the batches of an epoch so far, see `run_state.statistics_of`."""
    fields({"count": whole(), "total_count": whole(), "stats": table(name, row(dense, optional(dense)))}, closed=True)(
        value, place
    )
    column = _column(value["count"])
    table(name, row(column, optional(column)))(value["stats"], f"{place}.stats")


def _column(length: int) -> Check:
    """A tensor of `length` numbers in double precision, which may be NaN."""

    def check(value: Tensor, place: str) -> None:
        dense(value, place)
        if value.dtype != torch.float64 or value.shape != (length,):
            raise MisfitError(place, described(value), f"a tensor of float64 ({length},)")

    return check


def _flag(value: Any, place: str) -> None:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise MisfitError(place, described(value), "True or False")


def _anything(_value: Any, _place: str) -> None:
    """Allow a value that is checked elsewhere."""


_WEIGHTS = table(name, dense)
_POSITION = fields(
    {
        "epoch": whole(1),
        "batches": whole(1),
        "digest": whole(),
        "processes": whole(1),
        "statistics": _numbers_of_batches,
    },
    closed=True,
)
_OPTIMIZER = fields(
    {
        "state": table(whole(), table(name, _anything)),
        "param_groups": sequence(fields({"params": sequence(whole()), "lr": finite(0)}), least=1),
    }
)
_STATE = {
    "model": _WEIGHTS,
    "reporter": fields({"stats": table(whole(1), table(name, _phase))}, {"epoch": whole()}),
    "optimizers": sequence(_OPTIMIZER),
    "schedulers": sequence(optional(table(name, _anything))),
    "scaler": optional(table(name, finite())),
    "within_epoch": optional(table(name, _anything)),  # earlier versions had others
    "base_learning_rates": optional(sequence(sequence(finite(_LEAST_RATE), least=1))),
    "updates": optional(whole()),
    "updates_before": optional(sequence(finite(0))),
    "run": optional(name),
    FROZEN: optional(table(name, name)),
    LOW_RANK: optional(table(name, row(finite(), _flag))),
}
"""Checks by key of the state of a run: ESPnet's keys, and ours, which older and ESPnet's checkpoints lack."""


def is_state(content: Mapping) -> bool:
    """Return whether a file holds the state of a run, and not weights."""
    return any(key in _STATE and not isinstance(content[key], Tensor) for key in content)


def check_content(content: Mapping) -> None:
    """Check what a file holds: weights, or the state of a run.

    Raises:
        MisfitError: A value is not allowed.
    """
    if is_state(content):
        fields({}, _STATE)(content, "")
        weights = content.get("model", {})
    else:
        _WEIGHTS(content, "weights")
        weights = content
    memory = {weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes() for weight in weights.values()}
    size = sum(weight.numel() * weight.element_size() for weight in weights.values())
    if size > _SHARED * sum(memory.values()):
        raise MisfitError(
            "the size of the weights", f"{size} bytes", f"{_SHARED} times their memory, {sum(memory.values())}"
        )


def check_fit(state: Mapping, optimizers: Sequence[Optimizer], schedulers: Sequence) -> None:
    """Check that the state of a run fits its training; parameters are compared by `checkpoint.misfits`.

    Args:
        state: A state that `check_content` has passed.
        optimizers: Its optimizers.
        schedulers: Schedulers of their learning rates, or None for each.

    Raises:
        MisfitError: A value is not allowed.
    """
    rates = row(*(sequence(finite(_LEAST_RATE), len(optimizer.param_groups)) for optimizer in optimizers))
    fields(
        {
            "model": _anything,
            "reporter": _of_last_epoch,
            "optimizers": row(*map(_of_optimizer, optimizers)),
            "schedulers": row(*map(_of_scheduler, schedulers)),
            "base_learning_rates": rates,
            "updates": whole(),
        },
        {"within_epoch": optional(_POSITION)},
    )(state, "")


def _of_last_epoch(value: Mapping, place: str) -> None:
    """Check that the statistics of epochs show where training resumes."""
    fields({"epoch": whole()})(value, place)
    last = value["epoch"]
    table(name, fields({"total_count": whole()}))(value["stats"].get(last, {}), f"{place}.stats[{last}]")


def _of_scheduler(scheduler: Any) -> Check:
    """Check of the attributes of a scheduler, of any version of PyTorch; none may hide a method."""
    if scheduler is None:
        return _anything  # its state is not used
    known = scheduler.state_dict()

    def check(value: Any, place: str) -> None:
        fields({}, {key: like(attribute) for key, attribute in known.items()})(value, place)
        for key in value:
            if key not in known and hasattr(scheduler, key):
                raise MisfitError(f"a key of {place}", described(key), " ".join(known))

    return check


def _of_optimizer(optimizer: Optimizer) -> Check:
    """Check of an optimizer's options, and of the kinds, shapes and types of what it keeps of each parameter."""
    present = optimizer.state_dict()["param_groups"]
    groups = [index for index, group in enumerate(optimizer.param_groups) for _ in group["params"]]
    parameters = list(chain.from_iterable(group["params"] for group in optimizer.param_groups))

    def check(value: dict, place: str) -> None:
        row(*map(_of_group, present))(value["param_groups"], f"{place}.param_groups")
        layouts = _Layouts(type(optimizer), value["param_groups"], f"{place}.param_groups")
        for index, state in value["state"].items():
            entry_place = f"{place}.state[{index}]"
            if index >= len(parameters):
                raise MisfitError(
                    f"a key of {place}.state", str(index), f"the number of one of {len(parameters)} parameters"
                )
            if state:  # else the first update makes it
                layouts.check(state, entry_place, groups[index], parameters[index])

    return check


def _of_group(present: Mapping) -> Check:
    """Check of the options of a group of parameters, of any version of PyTorch, and of the parameters' numbers."""
    return fields(
        {"params": row(*map(exactly, present["params"]))},
        {key: like(value) for key, value in present.items() if key != "params"},
    )


class _Layouts:
    """The state that an optimizer keeps of a parameter, found by a step with a small parameter of the same kind.

    Args:
        kind: Class of the optimizer.
        groups: Options of its groups, as they were saved.
        place: Where they are in the file.
    """

    def __init__(self, kind: type[Optimizer], groups: Sequence[Mapping], place: str):
        self.kind, self.groups, self.place = kind, groups, place
        self._found: dict[tuple, Mapping | None] = {}

    def check(self, value: object, place: str, group: int, parameter: Tensor) -> None:
        """Check the saved state of a parameter of a group."""
        shape = tuple(range(2, 2 + parameter.dim()))
        key = group, shape, parameter.dtype, parameter.device
        if key not in self._found:
            self._found[key] = self._layout(*key)
        if (layout := self._found[key]) is not None:
            fields({name: _entry(entry, shape, parameter) for name, entry in layout.items()}, closed=True)(value, place)

    def _layout(self, group: int, shape: tuple, dtype: torch.dtype, device: torch.device) -> Mapping | None:
        options = {key: value for key, value in self.groups[group].items() if key != "params"}
        parameter = nn.Parameter(torch.zeros(shape, dtype=dtype, device=device))
        parameter.grad = torch.zeros_like(parameter)
        try:
            optimizer = self.kind([{**options, "params": [parameter]}])
            optimizer.step()
        except Exception as error:  # of any class, as options have no checks of their own
            if not self.kind.__module__.startswith("torch.optim."):
                return None  # it may need a GPU
            message = f"a group with which {self.kind.__name__} makes no step ({' '.join(str(error).split()):.200})"
            raise MisfitError(f"{self.place}[{group}]", message, "its options") from error
        return dict(optimizer.state[parameter])


def _entry(template: object, shape: tuple, parameter: Tensor) -> Check:
    """A check of one entry of an optimizer's state of `parameter`, given the entry of a parameter of `shape`."""
    if not isinstance(template, Tensor):
        return like(template)
    return tensor(template.dtype, tuple(parameter.shape if template.shape == shape else template.shape))
