"""One training, or collection of statistics, at a time in a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from espnet_diverse.errors import TrainingError

_RUNNING = RLock()


@contextmanager
def one_run() -> Iterator[None]:
    """Refuse a second thread while one trains or collects statistics in this process; calls of one thread may nest.

    ESPnet's trainer, with the names that are replaced in it, PyTorch's random generator, the log and the handlers of
    signals are the process's: two runs would change each other's results, or the second would wait without a word.

    Raises:
        TrainingError: Another thread is within such a block.
    """
    if not _RUNNING.acquire(blocking=False):
        raise TrainingError(
            "another thread of this process trains or collects statistics, and a process has one random generator and "
            "one log; wait for its end, or start espnet-diverse as a process of its own"
        )
    try:
        yield
    finally:
        _RUNNING.release()
