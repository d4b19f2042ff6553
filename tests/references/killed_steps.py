"""Functions in forked processes that are killed before a step of the file system, or that run out of room."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
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

    def kill() -> None:
        if next(number) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return in_fork(partial(_watched, function, folder, kill))


def steps(function: Callable[[], object], folder: Path) -> int:
    """Do what `in_fork` does to the end; returns the number of steps that `with_kill` counts."""
    read, write = os.pipe()
    assert in_fork(partial(_watched, function, folder, partial(os.write, write, b"."))) == DONE
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return len(pipe.read())


def _watched(function: Callable[[], object], folder: Path, before: Callable[[], object]) -> None:
    """Call a function, and another one before each step that changes a folder."""

    def hook(event: str, args: tuple) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        is_path = (writes or event in _STEPS) and isinstance(args[0], str | Path)
        if is_path and Path(args[0]).is_relative_to(folder):
            before()

    sys.addaudithook(hook)
    function()


def with_room(function: Callable[[], object], size: int) -> int:
    """Do what `in_fork` does in a process that can write no more than `size` bytes to a file."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        function()

    return in_fork(limited)
