"""Parallel map: in threads, as libsndfile, soxr and file access release the interpreter lock, or on workers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from espnet_diverse.errors import UserError
from espnet_diverse.progress import progress

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers(Protocol):
    """Processes, also of other machines, that do the work of threads, such as a `cluster.pool.Pool`."""

    def map(self, function: Callable[[Any], Any], items: Iterable) -> Iterator:
        """Yield `function(item)` for each item, in order, and a `UserError` where an item kills the processes.

        Function, items and results are pickled.
        """


def map_in_parallel(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    nj: int | Workers,
    name: str,
    lost: Callable[[Item, UserError], Result],
) -> list[Result]:
    """Return `function(item)` for each item, in order, computed by `nj` threads or workers; with a progress bar.

    Args:
        function: What is computed.
        items: The items.
        nj: Number of threads, or workers.
        name: Label of the progress bar.
        lost: Gives the result of an item that kills the workers.
    """
    if isinstance(nj, int):
        return map_in_threads(function, items, nj, name)
    found = progress(nj.map(function, items), name, len(items), "file")
    return [lost(item, one) if isinstance(one, UserError) else one for item, one in zip(items, found, strict=True)]


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], nj: int, name: str) -> list[Result]:
    """Return `function(item)` for each item, in order, computed by `nj` threads with a progress bar `name`."""
    threads = ThreadPoolExecutor(nj)
    try:
        return list(progress(threads.map(function, items), name, len(items), "file"))
    finally:
        # After an error or an interrupt, begin no further item and wait for running ones, which may be writing.
        threads.shutdown(cancel_futures=True)
