"""Several jobs at a time, each a row of commands, until all are done, the time is over or a signal comes.

A job holds a lock of the operating system on its log. The programs that it starts have the log as their output, so the
lock is held until the last of them has ended, also where the shell that started them ended first.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

GRACE = 60.0
"""Seconds in which a program that was asked to stop may end; after them it is killed. Training needs at most 25 until
its next update is done, and then saves."""
_FINISHED = (0, 2)  # 2: some utterances were skipped
_AGAIN = 75  # a program was stopped by a signal from elsewhere, and can go on
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Job:
    """Commands that are run one after the other.

    Args:
        name: Name in messages.
        folder: Folder that the commands are started in.
        log: File that their output is added to.
        commands: The commands. The next one is asked for when the one before has succeeded, so what the iterator does
            between two of them, and after the last, may read what was written.

    Attributes:
        process: The program that runs, or the last that has.
        state: waiting, first (its first command runs), further (a later one does), done, failed or stopped.
    """

    def __init__(self, name: str, folder: Path, log: Path, commands: Iterator[Sequence[str]]):
        self.name, self.folder, self.log, self.commands = name, folder, log, commands
        self.state = "waiting"
        self.process: subprocess.Popen | None = None
        self._output: TextIO | None = None

    def lock(self) -> bool:
        """Take the lock; False if a program of an earlier call still has it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._output = self.log.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            return False
        except OSError:  # of a file system without locks
            pass
        return True

    def unlock(self) -> None:
        """Give up the lock; programs that still run keep it."""
        self._output.close()

    def start(self, command: Sequence[str]) -> None:
        """Start a command in a process group of its own, on one thread unless OMP_NUM_THREADS is set."""
        self.state = "first" if self.state == "waiting" else "further"
        settings = {"cwd": self.folder, "env": {"OMP_NUM_THREADS": "1", **os.environ}, "start_new_session": True}
        self.process = subprocess.Popen(command, stdout=self._output, stderr=self._output, **settings)

    def hand_on(self, number: int) -> None:
        """Send a signal to all programs of the command."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def ended(self) -> bool:
        """Whether all programs have ended; the lock was given up before."""
        if self.process.poll() is None or not self.lock():
            return False
        self.unlock()
        return True


class Pool:
    """Several jobs at a time.

    Args:
        size: Number of jobs at the same time.
        deadline: Time of `time.monotonic` after which nothing is started and what runs is stopped.

    Attributes:
        signals: Signals of SIGTERM, SIGINT and SIGHUP that came, in their order.
    """

    def __init__(self, size: int, deadline: float = float("inf")):
        self.size, self.deadline = size, deadline
        self.signals: list[int] = []
        self._active: list[Job] = []

    def work(self, jobs: Sequence[Job]) -> None:
        """Run jobs in their order and set their states. A job begins after the first command of the one before: the
        jobs share what that prepares."""
        waiting = list(jobs)
        with self._listening():
            try:
                while (waiting or self._active) and not self._over():
                    while waiting and len(self._active) < self.size and not self._preparing() and not self._over():
                        self._begin(waiting.pop(0))
                    time.sleep(0.2)
                    self._collect()
            finally:
                self._stop()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Note signals. One that the caller ignores, as a shell does for programs in its background, is left so."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        heard = [number for number in _SIGNALS if before[number] != signal.SIG_IGN]
        try:
            for number in heard:
                signal.signal(number, lambda number, _frame: self.signals.append(number))
            yield
        finally:
            for number in heard:
                signal.signal(number, before[number])

    def _over(self) -> bool:
        return bool(self.signals) or time.monotonic() >= self.deadline

    def _preparing(self) -> bool:
        return any(job.state == "first" for job in self._active)

    def _begin(self, job: Job) -> None:
        if not job.lock():
            print(f"{job.name}: left out, as it still runs from an earlier call; its log is {job.log}", flush=True)
            return
        print(f"{job.name}: log {job.log}", flush=True)
        self._active.append(job)
        self._next(job)

    def _collect(self) -> None:
        for job in [job for job in self._active if job.process.poll() is not None]:
            if job.process.returncode in _FINISHED:
                self._next(job)
            else:
                self._leave(job, "stopped" if job.process.returncode == _AGAIN else "failed")

    def _next(self, job: Job) -> None:
        """Start the next command of a job, if there is one and time for it."""
        try:
            command = next(job.commands, None)
        except (OSError, LookupError, TypeError, ValueError) as error:  # in what a command wrote; the others go on
            print(f"{job.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._leave(job, "failed")
            return
        if command is None:
            self._leave(job, "done")
        elif self._over():
            self._leave(job, "stopped")
        else:
            job.start(command)

    def _leave(self, job: Job, state: str) -> None:
        self._active.remove(job)
        job.state = state
        job.unlock()

    def _stop(self) -> None:
        """Hand the signals on, SIGTERM if there was none, and wait until all programs have ended."""
        stopped = [job for job in self._active if job.process is not None]
        for job in list(self._active):
            self._leave(job, "stopped")
        handed, limit = 0, time.monotonic() + GRACE
        if not self.signals:
            for job in stopped:
                job.hand_on(signal.SIGTERM)
        while stopped and time.monotonic() < limit:
            numbers = self.signals[handed:]
            for number in numbers:
                for job in stopped:
                    job.hand_on(number)
            handed += len(numbers)
            time.sleep(0.1)
            stopped = [job for job in stopped if not job.ended()]
        for job in stopped:
            job.hand_on(signal.SIGKILL)
            job.process.wait()
