"""Functions in forked processes that are killed before a step of the file system, or that run out of room."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path

_STEPS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
DONE, FAILED = 0, 1


def started(function: Callable[[], object]) -> int:
    """Call a function in a forked process, which ends with `DONE`, or `FAILED` after an exception; returns its id."""
    child = os.fork()
    if not child:
        code = FAILED
        try:
            function()
            code = DONE
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def in_fork(function: Callable[[], object]) -> int:
    """Do what `started` does and wait; returns its code, or -N after signal N."""
    return os.waitstatus_to_exitcode(os.waitpid(started(function), 0)[1])


def with_kill(function: Callable[[], object], step: int, folder: Path) -> int:
    """Do what `in_fork` does in a process that is killed before a step, counted from 1, that changes `folder`.

    Steps are files that are opened to be written, made, renamed or removed, and folders likewise.
    """
    number = count(1)

    def hook(event: str, args: tuple) -> None:
        if event in _STEPS or event == "open" and isinstance(args[2], int) and args[2] & _WRITING:
            is_inside = isinstance(args[0], str | Path) and Path(args[0]).is_relative_to(folder)
            if is_inside and next(number) == step:
                os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        sys.addaudithook(hook)
        function()

    return in_fork(killed)


def with_room(function: Callable[[], object], size: int) -> int:
    """Do what `in_fork` does in a process that can write no more than `size` bytes to a file."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        function()

    return in_fork(limited)
