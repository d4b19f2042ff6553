"""The batches of an epoch for ESPnet's loop, which may begin within the epoch and survives the loss of a worker."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from espnet_diverse.progress import progress
from espnet_diverse.training.data_workers import Batch, Item, LoaderBatches
from espnet_diverse.training.ranks import Ranks
from espnet_diverse.training.run_state import Names, Position, restore_generators

_SHOWN = 5


@dataclass
class _Step:
    """A batch, and what became of it."""

    utterances: list[str]
    batch: Batch
    is_done: bool = False
    is_halved: bool = False


class Steps:
    """Shows progress, and calls a function after each step of ESPnet's loop.

    The loop may be entered again after an exception: it then goes on with the first batch of the update that it was in.

    Args:
        iterator: The batches of the epoch, with the names of their utterances.
        name: What progress is shown as.
        after_step: Called when a step is done for the first time, before the next batch is read.
        position: Where the epoch goes on; None for its beginning.
        ranks: The processes that share the batches; by default one.
        go_on: Called with `position` once the batches that are done are skipped, before the first step; not called if
            the epoch begins anew because its batches are others.
        accum_grad: Number of batches of an update.

    Attributes:
        position: Where the epoch goes on; None for its beginning, also where its batches turned out to be others.
        done: Number of batches that are done.
        names: Digest of the names of their utterances.
        since: Number of steps since the loop was entered.
    """

    def __init__(
        self,
        iterator: Iterable[Item],
        name: str,
        after_step: Callable[[], None],
        position: Position | None = None,
        ranks: Ranks | None = None,
        go_on: Callable[[Position], None] = lambda position: None,
        accum_grad: int = 1,
    ):
        self.iterator, self.name, self.after_step, self.position = iterator, name, after_step, position
        self.ranks, self.go_on, self.accum_grad = ranks or Ranks(), go_on, accum_grad
        self.done, self.names, self.since = 0, self._no_names(), 0
        self._source: Iterator[Item] | None = None
        self._update: list[_Step] = []  # the steps of the update that were begun
        self._again: list[_Step] = []  # those that come again

    def __len__(self) -> int:
        return len(self.iterator)  # type: ignore[arg-type]

    @property
    def total(self) -> int | None:
        """Number of batches of the epoch, if it is known."""
        return len(self.iterator) if hasattr(self.iterator, "__len__") else None

    @property
    def last(self) -> list[str]:
        """Names of the utterances of the last step."""
        return self._update[-1].utterances

    @property
    def begun(self) -> int:
        """Number of steps of the update that were begun since the loop was entered."""
        return len(self._update)

    @property
    def is_halved(self) -> bool:
        """Whether the batch of the last step is computed in halves."""
        return self._update[-1].is_halved

    def __iter__(self) -> Iterator[Item]:
        if self._source is None:
            self._source = iter(progress(self._batches(), self.name, self.total, "step"))
        self._again, self._update = self._update + self._again, []
        self.since = 0
        while (step := self._next()) is not None:
            if self.since % self.accum_grad == 0:
                self._update = []
            self._update.append(step)
            yield step.utterances, dict(step.batch)
            self.since += 1
            if not step.is_done:
                step.is_done = True
                self.done += 1
                self.names.add(step.utterances)
                self.after_step()

    def _next(self) -> _Step | None:
        if self._again:
            return self._again.pop(0)
        item = next(self._source, None)  # type: ignore[arg-type]
        return item if item is None else _Step(*item)

    def described(self, what: str) -> str:
        """A message about the batch of the last step, with its utterances and lengths."""
        return f"{what} with {named(self.last)}, of lengths {_lengths(self._update[-1].batch)}"

    def why_not_halved(self) -> str:
        """The reason why the batch of the last step cannot be halved, with advice; "" if it can."""
        if not self.is_halved and len(self.last) > 1:
            return ""
        halved = " although the batch was halved" if self.is_halved else ""
        return f"{halved}; lower batch_bins or batch_size, or leave out long utterances"

    def halve(self) -> None:
        """Let the batch of the last step be computed in halves, when the loop is entered again."""
        self._update[-1].is_halved = True

    def _batches(self) -> Iterator[Item]:
        with closing(LoaderBatches(self.iterator, self.name)) as batches:
            if self.position and not self._skip(batches, self.position):
                logging.warning("%s: its batches are not those of before; all of the epoch is trained again", self.name)
                self.done, self.names, self.position = 0, self._no_names(), None
                batches.begin()
            yield from batches

    def _no_names(self) -> Names:
        return Names((self.ranks.own, self.ranks.count))

    def _skip(self, batches: LoaderBatches, position: Position) -> bool:
        """Read the batches that are done; whether they are the same as before."""
        for utterances, _ in batches:
            self.names.add(utterances)
            self.done += 1
            if self.done == position.batches:
                break
        if self.ranks.total(self.names.value) != position.names:
            return False
        before, now = len(position.generators), self.ranks.count
        if before != now:
            said = "%s: %d processes go on with what %d began; they share the rest of the batches, and draw other noise"
            logging.warning(said, self.name, now, before)
        restore_generators(position.generators[self.ranks.own % before])
        self.go_on(position)
        return True


def named(utterances: list[str]) -> str:
    """Names of utterances for a message; after the first few their number."""
    more = f" and {len(utterances) - _SHOWN} more" if len(utterances) > _SHOWN else ""
    return f"utterances {' '.join(utterances[:_SHOWN])}{more}"


def _lengths(batch: Batch) -> str:
    found = {key.removesuffix("_lengths"): value for key, value in batch.items() if key.endswith("_lengths")}
    return ", ".join(f"{key} {' '.join(map(str, value.tolist()[:_SHOWN]))}" for key, value in found.items())
