"""One training process at a time in the directory of a run, by the lock of a folder (`data/locks.py`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from espnet_diverse.data.locks import NAME, lock, sign
from espnet_diverse.errors import TrainingError


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
