"""The batches of an epoch for ESPnet's loop, which may begin within the epoch and survives the loss of a worker."""

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator

import torch

from espnet_diverse.errors import TrainingError
from espnet_diverse.progress import progress
from espnet_diverse.training.run_state import Names, Position, restore_generators

Batch = dict[str, torch.Tensor]
Item = tuple[list[str], Batch]
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

    Attributes:
        done: Number of batches that are done.
        names: Digest of the names of their utterances.
        last: Names of the utterances of the last step.
        since: Number of steps since the loop was entered.
        whole: Whether no part of a batch is left.
    """

    def __init__(
        self, iterator: Iterable[Item], name: str, after_step: Callable[[], None], position: Position | None = None
    ):
        self.iterator, self.name, self.after_step, self.position = iterator, name, after_step, position
        self.done, self.names = 0, Names()
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
        batches = _Batches(self.iterator, self.name)
        if self.position and not self._skip(batches, self.position):
            logging.warning("%s: its batches are not those of before; all of the epoch is trained again", self.name)
            self.done, self.names = 0, Names()
            batches.begin()
        yield from batches

    def _skip(self, batches: "_Batches", position: Position) -> bool:
        """Read the batches that are done; whether they are the same as before."""
        for utterances, _ in batches:
            self.names.add(utterances)
            self.done += 1
            if self.done == position.batches:
                break
        if str(self.names) != position.names:
            return False
        restore_generators(position.generators)
        return True


class _Batches:
    """Batches of a loader; if one of its workers is killed, the loader is started again, once, where it was."""

    def __init__(self, loader: Iterable[Item], name: str):
        self.loader, self.name = loader, name
        self.again = False
        self.seed = torch.get_rng_state()  # from which the loader draws the seeds of its workers
        self.begin()

    def begin(self) -> None:
        """Begin at the first batch."""
        self.number = 0
        self.iterator = iter(self.loader)
        if getattr(self.loader, "num_workers", 0) and threading.current_thread() is threading.main_thread():
            # PyTorch's handler raises at any place of the main thread; without it the next batch fails instead.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        while True:
            try:
                item = next(self.iterator)
            except (RuntimeError, OSError, EOFError) as error:  # of a pipe, where a batch was being handed over
                if not self._lost_worker():
                    raise
                self._begin_again(error)
            else:
                self.number += 1
                return item

    def _lost_worker(self) -> bool:
        workers = getattr(self.iterator, "_workers", ())
        for worker in workers:
            worker.join(0.1)  # its pipes close shortly before it has ended
        return any(not worker.is_alive() for worker in workers)

    def _begin_again(self, error: Exception) -> None:
        if self.again:
            raise TrainingError(
                f"{self.name}: a worker that reads data was killed again; the machine may be out of memory: lower "
                "num_workers, and give the same command again"
            ) from error
        self.again = True
        logging.warning("%s: a worker that reads data was killed; it is started again", self.name)
        state, number = torch.get_rng_state(), self.number
        torch.set_rng_state(self.seed)
        self.begin()
        for self.number, _ in zip(range(1, number + 1), self.iterator, strict=False):  # noqa: B020
            pass
        torch.set_rng_state(state)


def named(utterances: list[str]) -> str:
    """Names of utterances for a message; after the first few their number."""
    more = f" and {len(utterances) - _SHOWN} more" if len(utterances) > _SHOWN else ""
    return f"utterances {' '.join(utterances[:_SHOWN])}{more}"


def _lengths(batch: Batch) -> str:
    found = {key.removesuffix("_lengths"): value for key, value in batch.items() if key.endswith("_lengths")}
    return ", ".join(f"{key} {' '.join(map(str, value.tolist()[:_SHOWN]))}" for key, value in found.items())
