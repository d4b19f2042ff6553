"""Locks that allow one training at a time: in the directory of a run, by `data/files/locks.py`, and in a process."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock

from espnet_diverse.data.files.locks import NAME, in_use, lock, sign
from espnet_diverse.errors import TrainingError

_running = RLock()


@contextmanager
def run_lock(output_dir: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of the directory of a run in a block, and yield a function that signs it; the directory is made.

    If the block ends before the lock is signed, no trace of it stays in a directory that had no lock file.

    Raises:
        TrainingError: Another process holds the lock; the message names it.
    """

    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / NAME
    new = not path.exists()
    with lock(path, in_use(output_dir, "trains", TrainingError)) as descriptor:
        try:
            yield partial(sign, descriptor)
        finally:
            if new and os.fstat(descriptor).st_size == 0:
                path.unlink(missing_ok=True)


@contextmanager
def one_run() -> Iterator[None]:
    """Refuse a second thread while one trains or collects statistics in this process; calls of one thread may nest.

    PyTorch's random generator, the log and the handlers of signals belong to the process: two runs would change each
    other's results, or the second would wait without a message.

    Raises:
        TrainingError: Another thread is within this block.
    """
    if not _running.acquire(blocking=False):
        raise TrainingError(
            "another thread of this process trains or collects statistics, and a process has one random generator and "
            "one log; wait for its end, or start espnet-diverse as a separate process"
        )
    try:
        yield
    finally:
        _running.release()
