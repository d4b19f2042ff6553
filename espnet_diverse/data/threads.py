"""Parallel map in threads (libsndfile, soxr and file access release the interpreter lock) or on workers."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from espnet_diverse.errors import UserError
from espnet_diverse.progress import progress

_AHEAD = 64  # items for each thread that have begun or are waiting


class Items[Item](Protocol):
    """Items whose number is known, and that can be read several times."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...


class Workers(Protocol):
    """Processes, also on other machines, that do the work of threads, such as a `cluster.pool.Pool`."""

    def map(self, function: Callable[[Any], Any], items: Iterable) -> Iterator:
        """Yield `function(item)` for each item, in order, and a `UserError` where an item kills the processes.

        Function, items and results are pickled.
        """


def map_in_parallel[Item, Result](
    function: Callable[[Item], Result],
    items: Items[Item],
    nj: int | Workers,
    name: str,
    lost: Callable[[Item, UserError], Result],
    ahead: int = _AHEAD,
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed by `nj` threads or workers; with a progress bar.

    Args:
        function: The function to compute.
        items: The items; they are read as needed, and twice with workers.
        nj: Number of threads, or workers.
        name: Label of the progress bar.
        lost: Returns the result for an item that kills the workers.
        ahead: Number of items for each thread that have begun or are waiting.
    """
    if isinstance(nj, int):
        yield from iterate_in_threads(function, items, nj, name, len(items), ahead)
        return
    results = progress(nj.map(function, items), name, len(items), "file")
    for item, one in zip(items, results, strict=True):
        yield lost(item, one) if isinstance(one, UserError) else one


def iterate_in_threads[Item, Result](
    function: Callable[[Item], Result], items: Iterable[Item], nj: int, name: str, total: int, ahead: int = _AHEAD
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed by `nj` threads, with a progress bar `name` of `total`.

    Items are read as they are needed, at most `ahead` for each thread.
    """
    threads = ThreadPoolExecutor(nj)

    def results() -> Iterator[Result]:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(threads.submit(function, item))
            if len(pending) > ahead * nj:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    try:
        yield from progress(results(), name, total, "file")
    finally:
        # After an error or an interrupt, begin no further item and wait for running ones, which may be writing.
        threads.shutdown(cancel_futures=True)
