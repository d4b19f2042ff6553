"""Batches of a loader whose workers may be killed, for example where memory runs out.

A killed worker may hold a lock that all processes of the loader share, or may have sent half of a batch; the reading
process would then wait forever. A signal therefore reports the loss to it; it abandons the loader and starts a new one.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from torch.utils.data._utils import signal_handling

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.data.row_dataset import RowLoader

log = logging.getLogger(__name__)

Tensors = dict[str, torch.Tensor]
Item = tuple[list[str], Tensors]

_END = 5.0  # seconds within which a killed process ends after its pipes have closed, also on a machine with much load


class _LostWorkerError(BaseException):
    """A worker of the loader was killed. PyTorch's loop catches every `Exception` and would wait then."""


class LoaderBatches:
    """Batches of a loader; if one of its workers is killed, the loader is started again, once, at the same batch.

    Args:
        loader: The batches; workers are looked for in a `torch.utils.data.DataLoader`.
        name: Its name in messages.
        start: Number of the first batch. A `RowLoader` begins there; other loaders read and discard the batches before.
        seed: Called with the number of a batch before it is read, so that a loader without workers whose batches have
            no seeds of their own draws the same random numbers wherever reading begins.

    The process's handler of SIGCHLD is still called, except PyTorch's, which raises anywhere in the main thread, even
    within a step of training; `close` sets it again.
    """

    def __init__(
        self,
        loader: Iterable[Item],
        name: str,
        start: int = 0,
        seed: Callable[[int], None] = lambda number: None,
    ):
        self.loader, self.name, self.seed = loader, name, seed
        self.again = False
        self._former = signal.getsignal(signal.SIGCHLD)
        # A handler that was not set from Python is None and cannot be set again.
        is_usable = self._former is not None and getattr(self._former, "__module__", "") != signal_handling.__name__
        self._handler = self._former if is_usable else signal.SIG_DFL
        self._seed = torch.get_rng_state()  # from which the loader draws the seeds of its workers
        self._begin(start)

    def close(self) -> None:
        """Set the handler of SIGCHLD that was there before."""
        if self._former is not None:
            self._handle(self._former)

    def _begin(self, number: int) -> None:
        """Begin at a batch."""
        can_start = isinstance(self.loader, RowLoader)
        self.number = number if can_start else 0
        self.iterator = iter(self.loader.starting_at(number) if can_start else self.loader)
        if self._workers:
            self._handle(self._handler)  # the first loader of a process sets PyTorch's
        while self.number < number:
            next(self)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        while True:
            self.seed(self.number)
            try:
                with self._watched():
                    item = next(self.iterator)
            except _LostWorkerError as error:
                self._begin_again(error)
            except (RuntimeError, OSError, EOFError) as error:  # of a pipe, where a batch was being handed over
                if not self._lost_worker(wait=_END):
                    raise
                self._begin_again(error)
            else:
                self.number += 1
                return item

    @property
    def _workers(self) -> list:
        return getattr(self.iterator, "_workers", [])

    def _lost_worker(self, wait: float = 0) -> bool:
        """Return whether a worker was killed, or is within `wait` seconds."""
        end = time.monotonic() + wait
        while not any(worker.exitcode for worker in self._workers):
            if time.monotonic() >= end or not self._workers:
                return False
            time.sleep(0.01)
        return True

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise where a worker is lost within this context, or was lost before; signals reach only the main thread."""
        if not self._workers or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            if callable(self._handler):
                self._handler(number, frame)
            self._raise_if_lost()

        self._handle(handle)
        try:
            self._raise_if_lost()
            yield
        finally:
            self._handle(self._handler)

    def _handle(self, handler: Callable | int | None) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, handler)

    def _raise_if_lost(self) -> None:
        if self._lost_worker():
            for worker in self._workers:  # now: one that is handing over a batch would print that the reader has gone
                worker.kill()
            raise _LostWorkerError

    def _begin_again(self, error: BaseException) -> None:
        self._abandon()
        if self.again:
            raise TrainingError(
                f"{self.name}: a worker that reads data was killed again; the machine may be out of memory: lower "
                "num_workers, and give the same command again"
            ) from error
        self.again = True
        log.warning("%s: a worker that reads data was killed; it is started again", self.name)
        state = torch.get_rng_state()
        torch.set_rng_state(self._seed)
        self._begin(self.number)
        torch.set_rng_state(state)

    def _abandon(self) -> None:
        """End the other workers, which may wait for the lost one, and give the loader a free lock so it can end."""
        for worker in self._workers:
            worker.kill()
            worker.join()
        self.iterator._workers_done_event = torch.multiprocessing.Event()  # type: ignore[attr-defined]
        self.iterator = iter(())
