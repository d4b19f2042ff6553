"""The batches of an epoch, from any position, in groups that make one update each."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

from espnet_diverse.errors import abridged
from espnet_diverse.progress import progress
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.data.data_workers import Item, LoaderBatches, Tensors
from espnet_diverse.training.data.row_dataset import RowLoader
from espnet_diverse.training.loop.ranks import Ranks

log = logging.getLogger(__name__)

_SHOWN = 5


@dataclass(frozen=True)
class Batch:
    """A batch of this process.

    Attributes:
        utterances: Names of its utterances.
        tensors: Arguments of the model.
        number: Number of batches of the epoch before it.
        seconds: Time spent waiting for it.
    """

    utterances: list[str]
    tensors: Tensors
    number: int
    seconds: float

    def described(self) -> str:
        """Its utterances and their lengths, for a message."""
        return f"{named(self.utterances)}, of lengths {_lengths(self.tensors)}"


class EpochBatches:
    """The batches of an epoch; shows progress, and survives the loss of a data worker.

    As a context manager it calls the process's handler of SIGCHLD besides its own, and restores it at the end.

    Args:
        loader: The batches, with the names of their utterances.
        name: Name of the progress display.
        ranks: The processes that share the batches; by default one.
        position: Where the epoch continues; None for its beginning.
        seed: Called with the number of a batch before it is read, see `LoaderBatches`.

    Attributes:
        position: Where the epoch continues; None for its beginning, also where its batches have changed.
        done: Number of batches that were read and are no longer needed.
    """

    def __init__(
        self,
        loader: Iterable[Item],
        name: str,
        ranks: Ranks | None = None,
        position: Position | None = None,
        seed: Callable[[int], None] = lambda number: None,
    ):
        self.loader, self.name, self.ranks = loader, name, ranks or Ranks()
        self._digest: int | None = None
        self.position = self._checked(position) if position else None
        self.done = self.position.batches if self.position else 0
        self._batches = LoaderBatches(loader, name, self.done, seed)

    def __enter__(self) -> "EpochBatches":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._batches.close()

    @property
    def total(self) -> int | None:
        """Number of batches of the epoch, if it is known."""
        return len(self.loader) if hasattr(self.loader, "__len__") else None

    @property
    def digest(self) -> int:
        """Digest of the rows of all batches of the epoch in all processes; 0 where they are not known in advance."""
        if self._digest is None:
            local_digest = self.loader.batch_sampler.digest() if isinstance(self.loader, RowLoader) else 0
            self._digest = self.ranks.total(local_digest)
        return self._digest

    def groups(self, size: int) -> Iterator[list[Batch]]:
        """Yield the batches in groups of `size`; the last group may have fewer.

        A group is read as a whole before its first batch is computed, so that the random numbers of reading and of
        computing do not depend on each other's order. It ends where one of the processes has no more batches.
        """
        source = iter(progress(self._read(), self.name, self.total, "step", done=self.done))
        has_more = True
        while has_more:
            group: list[Batch] = []
            while has_more and len(group) < size:
                batch = next(source, None)
                has_more = not self.ranks.largest(batch is None)
                if has_more and batch is not None:
                    group.append(batch)
            if group:
                yield group
                self.done += len(group)

    def _read(self) -> Iterator[Batch]:
        while True:
            number, start = self._batches.number, time.perf_counter()
            item = next(self._batches, None)
            if item is None:
                return
            yield Batch(*item, number, time.perf_counter() - start)

    def _checked(self, position: Position) -> Position | None:
        """Return the position, if the epoch has the same batches as before."""
        if self.digest != position.digest:
            log.warning("%s: its batches have changed; all of the epoch is trained again", self.name)
            return None
        if (before := position.processes) != self.ranks.count:
            message = "%s: %d processes resume a run of %d: they share the rest of the batches, and draw other noise"
            log.warning(message, self.name, self.ranks.count, before)
        return position


def named(utterances: list[str]) -> str:
    """Names of utterances for a message; after the first few their number."""
    return f"utterances {abridged(utterances, _SHOWN, ' ')}"


def _lengths(tensors: Tensors) -> str:
    lengths = {key.removesuffix("_lengths"): value for key, value in tensors.items() if key.endswith("_lengths")}
    return ", ".join(f"{key} {' '.join(map(str, value.tolist()[:_SHOWN]))}" for key, value in lengths.items())
