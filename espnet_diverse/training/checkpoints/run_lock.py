"""One training at a time: in the directory of a run, by `data/files/locks.py`, and in a process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from espnet_diverse.data.files.locks import NAME, lock, sign
from espnet_diverse.errors import TrainingError

_running = RLock()


class RunLock:
    """A lock that is held.

    Args:
        descriptor: File descriptor of the open and locked file.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def sign(self) -> None:
        """Write process and host into the file."""
        sign(self._descriptor)


@contextmanager
def run_lock(output_dir: Path) -> Iterator[RunLock]:
    """Hold the lock of the directory of a run while the block runs; the directory is made.

    If the block ends before the lock is signed, no trace of it stays in a directory that had no lock file.

    Raises:
        TrainingError: Another process holds the lock; the message names it.
    """

    def refuse(holder: str) -> TrainingError:
        advice = "wait until it has ended, stop it, or give another --output_dir"
        return TrainingError(f"{output_dir}: {holder} trains here now; {advice}")

    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / NAME
    new = not path.exists()
    with lock(path, refuse) as descriptor:
        try:
            yield RunLock(descriptor)
        finally:
            if new and os.fstat(descriptor).st_size == 0:
                path.unlink(missing_ok=True)


@contextmanager
def one_run() -> Iterator[None]:
    """Refuse a second thread while one trains or collects statistics in this process; calls of one thread may nest.

    ESPnet's trainer, with the names that are replaced in it, PyTorch's random generator, the log and the handlers of
    signals are the process's: two runs would change each other's results, or the second would wait without a word.

    Raises:
        TrainingError: Another thread is within such a block.
    """
    if not _running.acquire(blocking=False):
        raise TrainingError(
            "another thread of this process trains or collects statistics, and a process has one random generator and "
            "one log; wait for its end, or start espnet-diverse as a process of its own"
        )
    try:
        yield
    finally:
        _running.release()
