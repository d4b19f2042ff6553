"""Locks between processes of one machine, or of several machines that share a file system with locks.

A lock is a lock of the operating system on a file. It ends with the process that holds it, however that process ends,
so no lock is stale. The file names the process and its host.
"""

import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from espnet_diverse.data.files.disk_space import named_if_full
from espnet_diverse.errors import DataError, UserError

log = logging.getLogger(__name__)

NAME = ".lock"
"""File of the lock of a folder."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)  # the last two are equal on Linux
"""Errors of a file system without locks."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # this process or machine cannot open any file
_TO_SIGN = 1.0  # seconds between taking a lock and signing it, on a machine with much load
_held: set[int] = set()  # file descriptors of the locks of this process


def _leave_locks() -> None:
    """Release locks in a forked process, such as one that reads or decodes: it may outlive its parent process."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_leave_locks)


@contextmanager
def file_lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Let one process at a time read a file, change it and write it.

    Args:
        path: The file, or a directory. The lock is on a file next to it, which is deleted at the end of the block.
        wait: Whether to wait until another process or thread has ended its block.

    Raises:
        DataError: Another process or thread holds the lock, and `wait` is false.
    """

    def refuse(holder: str) -> DataError:
        return DataError(f"{path}: {holder} is writing it; wait until it has ended, or choose another path")

    with _signed(path.with_name(f".{path.name}.lock"), None if wait else refuse):
        yield


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time write its results to a folder, which is created.

    Raises:
        DataError: Another process or thread holds the lock.
    """

    folder.mkdir(parents=True, exist_ok=True)
    with _signed(folder / NAME, in_use(folder, "writes")):
        yield


def in_use(folder: Path, activity: str, error: type[UserError] = DataError) -> Callable[[str], UserError]:
    """A function that returns the error for a folder whose lock another process or thread holds; see `lock`."""
    advice = "wait until it has ended, stop it, or give another --output_dir"
    return lambda holder: error(f"{folder}: {holder} {activity} here now; {advice}")


@contextmanager
def _signed(path: Path, refuse: Callable[[str], UserError] | None) -> Iterator[None]:
    """Hold a lock, signed from the beginning, on a file that is deleted at the end."""
    with lock(path, refuse) as descriptor:
        try:
            with named_if_full(path):
                sign(descriptor)
            yield
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def lock(path: Path, refuse: Callable[[str], UserError] | None = None) -> Iterator[int]:
    """Hold the lock on a file while the block runs, and yield the descriptor of the open file, for `sign`.

    If the file system has no locks, a warning is logged.

    Args:
        path: The file; it is created, and stays.
        refuse: Returns the error to raise if another process or thread holds the lock; called with the text that the
            holder wrote by `sign`. By default the call waits for the lock.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if refuse is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _signature(descriptor) or "another process"
            os.close(descriptor)
            raise refuse(holder) from None
        except OSError as error:
            log.warning("%s: cannot be locked (%s); let no other process write here", path.parent, error.strerror)
        if is_at(descriptor, path):
            break
        os.close(descriptor)  # the process that held the lock before has deleted the file
    _held.add(descriptor)
    try:
        yield descriptor
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def claim(path: Path, is_folder: bool = False) -> int | None:
    """Create a file or folder for temporary use and hold its lock, or take it over from a process that has ended.

    Args:
        path: The file or folder.
        is_folder: Whether it is a folder.

    Returns:
        A descriptor for `give_up`; None if another process or thread holds the lock, or the file is another user's.

    Raises:
        OSError: It cannot be created; `errno` is one of `NO_LOCKS` where the file system has no locks.
    """
    kind = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_CREAT
    while True:
        try:
            if is_folder:
                path.mkdir(exist_ok=True)
            descriptor = os.open(path, kind | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if os.path.lexists(path) and error.errno not in _EXHAUSTED:
                return None
            if is_folder and path.parent.is_dir() and isinstance(error, FileNotFoundError):
                continue  # another process has just removed it
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in NO_LOCKS:
                raise
            return None
        if is_at(descriptor, path):
            _held.add(descriptor)
            return descriptor
        os.close(descriptor)


def give_up(descriptor: int) -> None:
    """End the lock of `claim`."""
    _held.discard(descriptor)
    os.close(descriptor)


def sign(descriptor: int) -> None:
    """Write process and host into the file of a lock."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _signature(descriptor: int) -> str:
    """Read what the holder of a lock writes by `sign` soon after it has taken the lock; "" if it writes nothing."""
    end = time.monotonic() + _TO_SIGN
    while not (content := os.pread(descriptor, 200, 0)) and time.monotonic() < end:
        time.sleep(0.01)
    return content.decode(errors="replace").strip()


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether the open file is the one at `path`, and was not deleted or replaced since it was opened."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
