"""One line of statistics for each epoch on the console, and warnings about problems that they show."""

import logging
import math

from espnet2.train.reporter import Reporter, SubReporter

from espnet_diverse.training.diagnosis import Parts, findings

_SHOWN = [("train", "loss"), ("train", "acc"), ("valid", "loss"), ("valid", "acc"), ("valid", "cer_ctc")]
_GRADIENT = "gradient_"


class EpochTable(Reporter):
    """ESPnet's reporter; after the validation of each epoch it also prints a row of a table, and warns of problems.

    Below the row of a model with auxiliary losses are the norms of their gradients relative to that of the task's loss.
    The number of the epoch is one of the statistics of its validation: with `[valid, epoch, max]` in
    `best_model_criterion` the last epochs are kept, and averaged as valid.epoch.ave.pth.

    Args:
        parts: `monitored_parts` of the model, whose statistics and losses may show problems.
    """

    _columns: list[tuple[str, str]] | None = None

    def __init__(self, parts: Parts = ()):
        super().__init__()
        self.parts = parts

    def finish_epoch(self, sub_reporter: SubReporter) -> None:
        """Keep the statistics of `sub_reporter`, as ESPnet does, and print the row of a finished epoch."""
        super().finish_epoch(sub_reporter)
        if sub_reporter.key != "valid":
            return
        phases = self.stats[self.epoch]
        phases["valid"]["epoch"] = self.epoch
        if self._columns is None:
            auxiliary = [("train", name) for name in phases["train"] if name.startswith("aux_")]
            self._columns = [column for column in _SHOWN + auxiliary if column[1] in phases[column[0]]]
            print(self._row([*map(_title, self._columns), "lr", "seconds"], "epoch"), flush=True)
        seconds = sum(phases[phase]["time"].total_seconds() for phase in ("train", "valid"))
        values = [phases[phase].get(name, math.nan) for phase, name in self._columns]
        values += [phases["train"].get("optim0_lr0", math.nan), seconds]
        print(self._row([f"{value:.4g}" for value in values], str(self.epoch)), flush=True)
        ratios = {name: value for name, value in phases["train"].items() if name.startswith(_GRADIENT)}
        if ratios:
            shown = ", ".join(f"{name.removeprefix(_GRADIENT)} {value:.2g}" for name, value in ratios.items())
            print(f"      gradient norms relative to the task's: {shown}", flush=True)
        for finding in findings(phases["train"], self.parts):
            logging.warning("epoch %d: %s", self.epoch, finding)

    def _row(self, cells: list[str], epoch: str) -> str:
        widths = [max(9, len(_title(column))) for column in self._columns] + [9, 7]
        return " ".join([f"{epoch:>5}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))])


def _title(column: tuple[str, str]) -> str:
    phase, name = column
    return f"valid_{name}" if phase == "valid" else name.removeprefix("aux_")
