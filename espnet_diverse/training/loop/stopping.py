"""A request to stop, by SIGTERM from a scheduler of jobs, SIGINT or SIGHUP from a terminal: training saves and ends."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from espnet_diverse.errors import InterruptedRunError

log = logging.getLogger(__name__)

SECONDS = 25
"""From the request on, training has this time until the next update is done; then it ends without a save. A save that
has begun is finished. Of several processes, the one that started them ends them after 30 seconds."""


class StopRequest:
    """A request to stop the process, by a signal.

    Args:
        started: Whether another process has started this one, which then hands on its signals and ends it if it takes
            too long.

    Attributes:
        number: Number of the signal; 0 if there was none.
    """

    def __init__(self, started: bool = False):
        self._started, self._saving, self._process = started, False, os.getpid()
        self.number = 0

    @property
    def signal(self) -> str:
        """Name of the signal; "" if there was none."""
        return signal.Signals(self.number).name if self.number else ""

    def on_signal(self, number: int, _frame: object) -> None:
        """Handle a signal; a second SIGINT ends training at once, unless it was handed on."""
        if os.getpid() != self._process or self.number and self._started:  # data workers, which fork, have it too
            return
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
        log.warning("%s: training is saved within the epoch, then it ends", self.signal)
        if not self._started and not self._saving:
            signal.alarm(SECONDS)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Let no alarm interrupt a save within this context; a later request gets its time after the save."""
        self._saving = True  # before the question whether there was a signal, which may come at any place
        if self.number:
            signal.alarm(0)
        try:
            yield
        finally:
            self._saving = False
            if self.number and not self._started:
                signal.alarm(SECONDS)

    def on_alarm(self, *_: object) -> None:
        """End training, because no update was done in time."""
        raise InterruptedRunError(
            f"{self.signal}: ended without a save, because no update was done within {SECONDS} seconds; the same "
            "command continues from the last save"
        )

    def end(self, where: str) -> None:
        """End training after a save.

        Raises:
            InterruptedRunError: Always.
        """
        raise InterruptedRunError(f"{self.signal}: saved {where}; the same command continues from there")


@contextmanager
def stop_on_signals(started: bool = False) -> Iterator[StopRequest]:
    """Turn SIGTERM, SIGINT and SIGHUP into a request while the block runs; in the main thread only, as signals allow.

    SIGHUP stays ignored where it is, as by nohup.

    Args:
        started: See `StopRequest`.
    """
    request = StopRequest(started)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    asked = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        asked.remove(signal.SIGHUP)
    handlers = {**dict.fromkeys(asked, request.on_signal), signal.SIGALRM: request.on_alarm}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield request
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
