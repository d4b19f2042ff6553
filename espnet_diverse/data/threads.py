"""Parallel map in threads: libsndfile, soxr and file access release the interpreter lock."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from espnet_diverse.progress import progress

Item = TypeVar("Item")
Result = TypeVar("Result")
_AHEAD = 64  # items that have been begun or are waiting, for each thread


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], nj: int, name: str) -> list[Result]:
    """Return `function(item)` for each item, in order, computed by `nj` threads with a progress bar `name`."""
    return list(iterate_in_threads(function, items, nj, name, len(items)))


def iterate_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], nj: int, name: str, total: int
) -> Iterator[Result]:
    """Yield what `map_in_threads` returns, for any number of items: they are read as they are needed."""
    threads = ThreadPoolExecutor(nj)

    def results() -> Iterator[Result]:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(threads.submit(function, item))
            if len(pending) > _AHEAD * nj:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    try:
        yield from progress(results(), name, total, "file")
    finally:
        # After an error or an interrupt, begin no further item and wait for running ones, which may be writing.
        threads.shutdown(cancel_futures=True)
