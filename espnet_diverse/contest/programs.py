"""Subprocesses of a contest: started with a log, stopped together, with measured time and memory."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.data.files.locks import lock
from espnet_diverse.errors import UserError

GRACE = 60.0
"""Seconds until a program that was asked to stop is killed. Training needs at most 25 to end an update and save."""
FINISHED = (0, 2)
"""Exit codes of commands that have finished; 2: some items were skipped."""
STOPPED = 75
"""Exit code EX_TEMPFAIL: call again."""
INTERRUPTED = 130


@dataclass(frozen=True)
class Ended:
    """A program that has ended.

    Attributes:
        code: Its exit code, or -N after signal N.
        seconds: Seconds that it took.
        memory: Peak resident memory in bytes of the largest of its processes; Linux counts it from the memory of the
            process that starts it.
    """

    code: int
    seconds: float = 0.0
    memory: int = 0


class Programs:
    """Programs, each in a process group of its own.

    Args:
        grace: Seconds until a program that was asked to stop is killed.

    Attributes:
        stopped: Whether all were asked to stop, after which no other one starts.
        interrupted: Whether they were stopped by SIGINT.
    """

    def __init__(self, grace: float = GRACE):
        self.stopped, self.interrupted = False, False
        self._grace = grace
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.RLock()  # a signal may come while another one is handled

    @property
    def exit_code(self) -> int:
        """Exit code of a command whose programs were stopped."""
        return INTERRUPTED if self.interrupted else STOPPED

    def run(self, command: Sequence[str], folder: Path, log: Path) -> Ended:
        """Run a program until all its processes have closed their output, which is added to a log.

        It has one thread unless OMP_NUM_THREADS is set, and finds the espnet-diverse of this Python first. If an
        earlier call was killed and its program with the same log still runs, this waits for the program, which ends as
        soon as it finds that nobody reads its output.

        Args:
            command: The command line.
            folder: Working directory.
            log: File that its output is added to; the folder is made.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        path, waiting = log.with_name(f".{log.name}.lock"), False
        while not self.stopped:
            try:
                with lock(path, _BusyError) as held:
                    return self._run(command, folder, log, held)
            except _BusyError:
                if not waiting:
                    print(f"{log}: waiting for the program that an earlier call has left", flush=True)
                waiting = True
                time.sleep(0.2)
        return Ended(STOPPED)

    def _run(self, command: Sequence[str], folder: Path, log: Path, held: int) -> Ended:
        start = time.monotonic()
        process = self._start(command, folder, held)
        if process is None:
            return Ended(STOPPED)
        with process.stdout, log.open("ab", buffering=0) as file:
            shutil.copyfileobj(process.stdout, file)
        with self._lock:
            self._running.remove(process)
        _, status, usage = os.wait4(process.pid, 0)  # for the memory, which `Popen.wait` does not return
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(process.returncode, time.monotonic() - start, usage.ru_maxrss * 1024)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all programs, and kill those that still run after the grace period."""
        self.stopped = True
        self.interrupted |= number == signal.SIGINT
        self._send(number)
        killer = threading.Timer(self._grace, self._send, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    @contextmanager
    def stopping(self, minutes: float | None = None) -> Iterator[None]:
        """Stop them on SIGTERM, SIGINT and SIGHUP, and after some minutes, while the block runs.

        Args:
            minutes: Minutes after which they are stopped; by default only by a signal.
        """
        former = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as a shell sets it for programs in its background
                former[number] = signal.signal(number, lambda signum, _: self.stop(signum))
        timer = threading.Timer(0 if minutes is None else 60 * minutes, self.stop)
        timer.daemon = True
        if minutes is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            for number, handler in former.items():
                signal.signal(number, handler)

    def _start(self, command: Sequence[str], folder: Path, held: int) -> subprocess.Popen | None:
        """Start a program that keeps the lock `held` as long as it runs; return None once all were stopped."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        settings = {"cwd": folder, "env": environment(), "start_new_session": True}
        with self._lock:
            if self.stopped:
                return None
            process = subprocess.Popen(command, bufsize=0, pass_fds=[held], **pipes, **settings)
            self._running.add(process)
            return process

    def _send(self, number: int) -> None:
        with self._lock:
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


def environment() -> dict[str, str]:
    """The environment variables of programs, see `Programs.run`."""
    variables = {"OMP_NUM_THREADS": "1", **os.environ}
    programs = Path(sys.executable).parent
    if (programs / "espnet-diverse").is_file():
        variables["PATH"] = f"{programs}{os.pathsep}{variables.get('PATH', os.defpath)}"
    return variables


class _BusyError(UserError):
    """A program with the same log runs."""
