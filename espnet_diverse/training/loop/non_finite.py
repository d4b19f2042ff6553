"""Batches whose loss or gradients are not finite: they are listed, and too many of them end training.

These batches make no update, and training continues. A fault in the data would otherwise recur in every epoch.
"""

import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from espnet2.train.reporter import SubReporter
from torch import nn

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.loop.epoch_batches import Batch, named
from espnet_diverse.training.loop.ranks import Ranks

NAME = "nonfinite_batches.txt"
IN_A_ROW = 10
SHARE = 0.1
"""Training ends after this number of batches in a row, or this share of the batches of an epoch, that are not finite"""
_GROWTH = 10.0  # a model whose largest parameter grew by more within an epoch has diverged


class NonFiniteBatches:
    """Counts the batches of an epoch whose loss is not finite, and the updates whose gradients alone are not.

    Args:
        model: The model that is trained.
        reporter: ESPnet's reporter of the epoch.
        output_dir: Directory of the run, which gets the list `NAME`; None for no list.
        ranks: The processes that share the batches; by default one. The first of them writes the list.

    Attributes:
        first: The first value that was not finite, with the names of the utterances; "" if all was finite.
    """

    def __init__(
        self,
        model: nn.Module,
        reporter: SubReporter,
        output_dir: Path | None = None,
        ranks: Ranks | None = None,
    ):
        self.model, self.reporter, self.output_dir = model, reporter, output_dir
        self.ranks = ranks or Ranks()
        self.first, self.total, self.in_a_row, self.finite = "", 0, 0, 0
        self._largest = _largest(model)

    def check(self, group: Sequence[Batch], losses: Sequence[float], gradient: float | None, total: int | None) -> None:
        """Check the batches of an update after it.

        Args:
            group: The batches.
            losses: Their losses.
            gradient: Norm of the gradients of the update; None where the epoch ended before it was due.
            total: Number of batches of the epoch; None where it is not known.

        Raises:
            TrainingError: Too many batches are not finite.
        """
        faults = [("the loss", [batch]) for batch, loss in zip(group, losses, strict=True) if not math.isfinite(loss)]
        if not faults and gradient is not None and not math.isfinite(gradient):
            faults = [("the gradient", group)]  # of one of them, which is not known
        if not faults:
            self.in_a_row, self.finite = 0, self.finite + len(group)
        for reason, batches in faults:
            self._count(reason, batches, total)

    def _count(self, reason: str, batches: Sequence[Batch], total: int | None) -> None:
        """Count and list batches that are not finite: a batch, or the batches of an update as one."""
        self.total, self.in_a_row = self.total + 1, self.in_a_row + 1
        utterances = [utterance for batch in batches for utterance in self._of_all(batch.utterances)]
        self.first = self.first or f"{reason} is not finite, first of {named(utterances)}"
        epoch, step = self.reporter.get_epoch(), batches[-1].number + 1
        if self.output_dir and self.ranks.own == 0:
            with (self.output_dir / NAME).open("a", encoding="utf-8") as file:
                file.write(f"epoch {epoch} step {step}, {reason}: {' '.join(utterances)}\n")
        many = total is not None and self.total > SHARE * total
        if many or self.in_a_row >= IN_A_ROW:
            raise TrainingError(f"epoch {epoch}, step {step}: {self.explain()}")

    def _of_all(self, share: list[str]) -> list[str]:
        """The utterances of a batch, of which process r of n has r, r + n, ... Losses and gradients are means over the
        processes, so that all of them find the same batches."""
        rounds = zip_longest(*self.ranks.gathered(share))
        return [utterance for group in rounds for utterance in group if utterance is not None]

    def explain(self) -> str:
        """The values that were not finite, with advice."""
        listed = f"; {self.output_dir / NAME} lists all such batches" if self.output_dir else ""
        stats = self.reporter.stats.items()
        rates = [value[-1].value for name, value in stats if re.fullmatch(r"optim\d+_lr\d+", name)]
        if self.finite and not _largest(self.model) <= _GROWTH * self._largest:  # also NaN
            rate = f" {rates[0]:g}" if rates else ""
            return f"training diverged: the learning rate{rate} is too high, lower optim_conf.lr; {self.first}{listed}"
        return f"{self.first}; check their audio and transcripts, or lower the learning rate{listed}"


def _largest(model: nn.Module) -> float:
    """The largest magnitude of a parameter, or NaN."""
    return float(nn.utils.get_total_norm([p.detach() for p in model.parameters() if p.numel()], math.inf))
