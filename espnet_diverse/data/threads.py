"""Parallel map in threads: libsndfile, soxr and file access release the interpreter lock."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from espnet_diverse.progress import progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], nj: int, name: str) -> list[Result]:
    """Return `function(item)` for each item, in order, computed by `nj` threads with a progress bar `name`."""
    threads = ThreadPoolExecutor(nj)
    try:
        return list(progress(threads.map(function, items), name, len(items), "file"))
    finally:
        # After an error or an interrupt, begin no further item and wait for running ones, which may be writing.
        threads.shutdown(cancel_futures=True)
