"""The batches of an epoch for ESPnet's loop, which may begin within the epoch and survives the loss of a worker."""

import logging
from collections.abc import Callable, Iterable, Iterator

from espnet_diverse.errors import TrainingError
from espnet_diverse.progress import progress
from espnet_diverse.training.data_workers import Batch, Item, LoaderBatches
from espnet_diverse.training.ranks import Ranks
from espnet_diverse.training.run_state import Names, Position, restore_generators

_SHOWN = 5


class Steps:
    """Shows progress, and calls a function after each step of ESPnet's loop.

    The loop may be entered again after an exception: it goes on with the parts of a batch that `halve` has made, and
    then with the next batch.

    Args:
        iterator: The batches of the epoch, with the names of their utterances.
        name: What progress is shown as.
        after_step: Called when a step is done, before the next batch is read.
        position: Where the epoch goes on; None for its beginning.
        ranks: The processes that share the batches; by default one.
        go_on: Called with `position` once the batches that are done are skipped, before the first step; not called if
            the epoch begins anew because its batches are others.

    Attributes:
        position: Where the epoch goes on; None for its beginning, also where its batches turned out to be others.
        done: Number of batches that are done.
        names: Digest of the names of their utterances.
        last: Names of the utterances of the last step.
        since: Number of steps since the loop was entered.
        whole: Whether no part of a batch is left.
    """

    def __init__(
        self,
        iterator: Iterable[Item],
        name: str,
        after_step: Callable[[], None],
        position: Position | None = None,
        ranks: Ranks | None = None,
        go_on: Callable[[Position], None] = lambda position: None,
    ):
        self.iterator, self.name, self.after_step, self.position = iterator, name, after_step, position
        self.ranks, self.go_on = ranks or Ranks(), go_on
        self.done, self.names = 0, self._no_names()
        self.last: list[str] = []
        self._batch: Batch = {}
        self._source: Iterator[Item] | None = None
        self._parts: list[Item] = []
        self._is_part = False
        self.since = 0

    def __len__(self) -> int:
        return len(self.iterator)  # type: ignore[arg-type]

    @property
    def total(self) -> int | None:
        """Number of batches of the epoch, if it is known."""
        return len(self.iterator) if hasattr(self.iterator, "__len__") else None

    @property
    def whole(self) -> bool:
        """Whether no part of a batch is left."""
        return not self._parts

    def __iter__(self) -> Iterator[Item]:
        if self._source is None:
            self._source = iter(progress(self._batches(), self.name, self.total, "step"))
        self.since = 0
        utterances = self.last  # of the batch that was halved
        while True:
            self._is_part = bool(self._parts)
            if self._is_part:
                self.last, self._batch = self._parts.pop(0)
            else:
                item = next(self._source, None)
                if item is None:
                    return
                self.last, self._batch = item
                utterances = self.last
            yield self.last, dict(self._batch)
            self.since += 1
            if self.whole:
                self.done += 1
                self.names.add(utterances)
            self.after_step()

    def halve(self, reason: str) -> None:
        """Divide the batch of the last step in two.

        Raises:
            TrainingError: It is half of a batch already, or a single utterance.
        """
        lengths = _lengths(self._batch)
        number = len(self.last)
        what = f"{reason} with {named(self.last)}, of lengths {lengths}"
        if self._is_part or number == 1:
            halved = " although the batch was halved" if self._is_part else ""
            raise TrainingError(f"{what}{halved}; lower batch_bins or batch_size, or leave out long utterances")
        logging.warning("%s; they are tried in two halves", what)
        middle = (number + 1) // 2
        for part in (slice(0, middle), slice(middle, None)):
            self._parts.append((self.last[part], {key: value[part] for key, value in self._batch.items()}))

    def _batches(self) -> Iterator[Item]:
        batches = LoaderBatches(self.iterator, self.name)
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
