"""A function in a process of its own, with bounds of memory and time."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """How a function ended: 0 returned, 1 an error that it may raise, 2 any other, -N killed by signal N.

    `said` is the message of the error, and `seconds` the time of a CPU that it took.
    """

    code: int
    said: str
    seconds: float


def limited(
    function: Callable[[], object],
    expected: type[Exception],
    seconds: int = 20,
    more: int = 2 << 30,
    waits: int | None = None,
) -> Outcome:
    """Call a function in a forked process that has `more` bytes of memory than this one, and some seconds of a CPU.

    After `waits` seconds, by default 20 times as many, it is killed.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        _run(function, expected, seconds, more, waits or 20 * seconds, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    _, status, used = os.wait4(child, 0)
    return Outcome(os.waitstatus_to_exitcode(status), said, used.ru_utime + used.ru_stime)


def _run(
    function: Callable[[], object], expected: type[Exception], seconds: int, more: int, waits: int, write_end: int
) -> None:
    code, said = 2, ""
    try:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's
        signal.alarm(waits)  # for one that waits
        function()
        code = 0
    except expected as error:
        code, said = 1, str(error)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        os.write(write_end, said[:60_000].encode("utf-8", "replace"))
        os._exit(code)
