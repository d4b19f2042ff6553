"""One line of statistics for each epoch on the console, and warnings about problems that they show."""

import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from espnet2.train.reporter import ReportedValue, Reporter, SubReporter, WeightedAverage

from espnet_diverse.progress import timespan
from espnet_diverse.training.loop.diagnosis import Parts, findings

log = logging.getLogger(__name__)

_SHOWN = [("train", "loss"), ("train", "acc"), ("valid", "loss"), ("valid", "acc"), ("valid", "cer_ctc")]
_TIMES = (11, 11)  # columns of the times
_GRADIENT = "gradient_"
_MEMORY = "gpu_max_cached_mem_GB"  # the name that ESPnet gives it
_TITLES = {"optim0_lr0": "lr", _MEMORY: "gpu_GB"}


class EpochTable(Reporter):
    """ESPnet's reporter; after the validation of each epoch it also prints a row of a table, and warns of problems.

    On a terminal the row has the columns that fit into a line; train.log has all statistics.
    Below the row of a model with auxiliary losses are the norms of their gradients relative to the task's. A row ends
    with the time since training was started or continued, and the time until the last epoch at this pace. The number of
    the epoch is one of the statistics of its validation: with `[valid, epoch, max]` in `best_model_criterion` the last
    epochs are kept, and averaged as valid.epoch.ave.pth.

    Args:
        parts: `monitored_parts` of the model, whose statistics and losses may show problems.
        epochs: Number of the last epoch, if it is known.
        check: Called with the statistics of each epoch by phase and name.
    """

    _columns: list[tuple[str, str]] | None = None

    def __init__(
        self,
        parts: Parts = (),
        epochs: int | None = None,
        check: Callable[[Mapping], None] = lambda phases: None,
    ):
        super().__init__()
        self.parts, self.epochs, self.check = parts, epochs, check
        self._start, self._finished = time.monotonic(), 0

    def start_epoch(self, key: str, epoch: int | None = None) -> SubReporter:
        """Begin an epoch, as ESPnet does; its log leaves out what was not measured."""
        begun = super().start_epoch(key, epoch)
        return _MeasuredAlone(begun.key, begun.epoch, begun.total_count)

    def finish_epoch(self, sub_reporter: SubReporter) -> None:
        """Keep the statistics of `sub_reporter`, as ESPnet does, and print the row of a finished epoch."""
        super().finish_epoch(sub_reporter)
        if sub_reporter.key != "valid":
            return
        phases = self.stats[self.epoch]
        phases["valid"]["epoch"] = self.epoch
        self.check(phases)
        self._print_row()
        ratios = {name: value for name, value in phases["train"].items() if name.startswith(_GRADIENT)}
        if ratios:
            shown = ", ".join(f"{name.removeprefix(_GRADIENT)} {value:.2g}" for name, value in ratios.items())
            print(f"      gradient norms relative to the task's: {shown}", flush=True)
        # In the first updates the task has hardly a gradient in the queries: attention is even, whatever they are.
        judged = phases["train"] if self.epoch > 1 else {k: v for k, v in phases["train"].items() if k not in ratios}
        for finding in findings(judged, self.parts):
            log.warning("epoch %d: %s", self.epoch, finding)

    def _print_row(self) -> None:
        phases = self.stats[self.epoch]
        if self._columns is None:
            auxiliary = [("train", name) for name in phases["train"] if name.startswith("aux_")]
            columns = _SHOWN + auxiliary + [("train", "optim0_lr0"), ("train", _MEMORY)]
            self._columns = _fitting([column for column in columns if column[1] in phases[column[0]]])
            print(self._row([*map(_title, self._columns), "elapsed", "left"], "epoch"), flush=True)
        values = [phases[phase].get(name, math.nan) for phase, name in self._columns]
        epoch = f"{self.epoch}/{self.epochs}" if self.epochs else str(self.epoch)
        print(self._row([*(f"{value:.4g}" for value in values), *self._times()], epoch), flush=True)

    def _times(self) -> tuple[str, str]:
        elapsed = time.monotonic() - self._start
        self._finished += 1
        remaining = (self.epochs - self.epoch) * elapsed / self._finished if self.epochs else None
        return timespan(elapsed), "" if remaining is None else timespan(remaining)

    def _row(self, cells: list[str], epoch: str) -> str:
        widths = [*map(_width, self._columns), *_TIMES]
        return " ".join([f"{epoch:>7}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))])


class _MeasuredAlone(SubReporter):
    """ESPnet's reporter of an epoch, without the statistics that no step since the last line has measured."""

    def log_message(self, start: int | None = None, end: int | None = None) -> str:
        with self._measured(start, end):
            return super().log_message(start, end)

    def tensorboard_add_scalar(self, summary_writer, start: int | None = None) -> None:
        with self._measured(start):
            super().tensorboard_add_scalar(summary_writer, start)

    @contextmanager
    def _measured(self, start: int | None, end: int | None = None) -> Iterator[None]:
        every = self.stats
        self.stats = {name: values for name, values in every.items() if not all(map(_is_filler, values[start:end]))}
        try:
            yield
        finally:
            self.stats = every


def _is_filler(value: ReportedValue) -> bool:
    """Return whether ESPnet has filled in a value that a step does not have."""
    return isinstance(value, WeightedAverage) and value.weight == 0


def _fitting(columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The columns that fit into a line of the terminal, if stdout is one; the last of the least important are left out.

    A note says how many.
    """
    room = shutil.get_terminal_size().columns - 7 - sum(1 + width for width in _TIMES)
    if not sys.stdout.isatty():
        return columns
    shown = sorted(columns, key=lambda column: (column not in _SHOWN, column[1] != "optim0_lr0"))
    while shown and sum(1 + _width(column) for column in shown) > room:
        shown.pop()
    if omitted := len(columns) - len(shown):
        print(f"{omitted} statistics do not fit into a line; train.log has all", flush=True)
    return [column for column in columns if column in shown]


def _width(column: tuple[str, str]) -> int:
    return max(9, len(_title(column)))


def _title(column: tuple[str, str]) -> str:
    phase, name = column
    if name in _TITLES:
        return _TITLES[name]
    return f"valid_{name}" if phase == "valid" else name.removeprefix("aux_")
