"""Functions that workers of the tests load and run, in a module that they can import."""

import os
import signal
import time
from pathlib import Path

from espnet_diverse.errors import DataError


def load(folder: Path) -> Path:
    """Note the process in a file, and return the folder."""
    with (folder / "loads").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return folder


def load_nothing(folder: Path) -> None:
    raise DataError(f"{folder} has no model")


def double(folder: Path, items: list[int]) -> list[int]:
    """Twice each number; the first piece takes longest, and each item is noted in a file of its own."""
    time.sleep(0.5 if 0 in items else 0.0)
    for item in items:
        with (folder / f"done-{item}").open("a") as file:
            file.write(".")
    return [2 * item for item in items]


def process(_: Path) -> int:
    return os.getpid()


def kill_once(folder: Path, items: list[int]) -> list[int]:
    """Kill the worker when an odd number comes for the first time."""
    for item in items:
        mark = folder / f"killed-{item}"
        if item % 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return [2 * item for item in items]


def kill_at_7(_: Path, items: list[int]) -> list[int]:
    """Kill the worker whenever 7 comes."""
    if 7 in items:
        os.kill(os.getpid(), signal.SIGKILL)
    return [2 * item for item in items]
