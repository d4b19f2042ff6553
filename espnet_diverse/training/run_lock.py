"""One training process at a time in the directory of a run.

The lock is one of the operating system on the file `.lock`, which ends with the process that holds it, however that
ends: no lock is stale. The file says which process and host that is.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from espnet_diverse.data.atomic_files import is_at
from espnet_diverse.errors import TrainingError

NAME = ".lock"
_held: set[int] = set()  # file descriptors of the locks of this process


def _leave_locks() -> None:
    """Let go of locks in a forked process, such as one that reads data: it may outlive the one that trains."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_leave_locks)


class RunLock:
    """A lock that is held.

    Args:
        descriptor: File descriptor of the open and locked file.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def sign(self) -> None:
        """Write process and host into the file."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


@contextmanager
def run_lock(output_dir: Path) -> Iterator[RunLock]:
    """Hold the lock of the directory of a run while the block runs; the directory is made.

    If the block ends before the lock is signed, no trace of it stays in a directory that had no lock file.

    Raises:
        TrainingError: Another process holds the lock; the message names it.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / NAME
    new = not path.exists()
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise TrainingError(
                f"{output_dir}: {holder} trains here now; wait until it has ended, stop it, or give another "
                "--output_dir"
            ) from None
        if is_at(descriptor, path):
            break
        os.close(descriptor)  # the process that held the lock before has deleted the file
    lock = RunLock(descriptor)
    _held.add(descriptor)
    try:
        yield lock
    finally:
        if new and os.fstat(descriptor).st_size == 0:
            path.unlink(missing_ok=True)
        _held.discard(descriptor)
        os.close(descriptor)
