"""Run one function over many items in threads (libsndfile, soxr and file access release the interpreter lock)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from espnet_diverse.progress import progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def threaded(function: Callable[[Item], Result], items: Sequence[Item], nj: int, name: str) -> list[Result]:
    """Return `function(item)` for each item, in order, from `nj` threads, with a progress bar called `name`."""
    threads = ThreadPoolExecutor(nj)
    try:
        return list(progress(threads.map(function, items), name, len(items), "file"))
    finally:
        # After an error or an interrupt: begin nothing more, and leave no thread writing.
        threads.shutdown(cancel_futures=True)
