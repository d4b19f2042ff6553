"""Map a function over pieces of work on the workers of a cluster: results in order, none twice, none lost.

Dask repeats a piece whose worker was killed. If this happens more often than `retries` allows, the piece is split into
its items. An item that still kills its worker gets an error as its result, like any other item that fails.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from espnet_diverse.cluster.configuration import ClusterOptions
from espnet_diverse.cluster.worker import Setup, Work
from espnet_diverse.errors import ClusterError, UserError

if TYPE_CHECKING:
    from distributed import Client, Future

_AHEAD = 3  # pieces per worker that are sent before they are needed
_MOST_WAITING = 30  # pieces per worker that are sent and whose results were not taken, also if the first one is slow
_MOST_ITEMS = 32  # in a piece of `map`
_PIECES = 8  # per worker, at least, that `map` makes if there are enough items
_LOOK_SECONDS = 5.0  # between two checks for workers while none finishes


class Pool:
    """The workers of a cluster, each with what `setup` loads.

    Args:
        client: Client of the cluster.
        options: The cluster's options.
        setup: What workers load once.
    """

    def __init__(self, client: "Client", options: ClusterOptions, setup: Setup):
        from espnet_diverse.cluster.dask_classes import QuickStart

        self._client, self._options, self._setup = client, options, setup
        with suppress(OSError):  # of a worker that dies at this moment; its replacement gets the plugin
            client.register_plugin(QuickStart())

    def ask(self, function: Callable[[Any], Any]) -> Any:
        """Call `function(loaded)` on one worker and return its result; all others begin to load, too.

        Raises:
            ClusterError: See `map_pieces`; or the worker was killed too often.
        """
        answers = self.map_pieces(partial(_ask, function), [[None]] * self._options.workers)
        (answer,) = next(answers)
        answers.close()
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    def map(self, function: Callable[[Any], Any], items: Iterable) -> Iterator:
        """Yield `function(item)` for each item, in order; if `items` has no length, each item is a piece.

        Args:
            function: Object that can be pickled; it is called with an item.
            items: Items that can be pickled.

        Returns:
            Results as from `map_pieces`.

        Raises:
            ClusterError: See `map_pieces`.
        """
        count = len(items) if isinstance(items, Sized) else 0
        size = min(max(1, count // (_PIECES * self._options.workers)), _MOST_ITEMS)
        remaining = iter(items)
        for results in self.map_pieces(partial(_each, function), iter(lambda: list(islice(remaining, size)), [])):
            yield from results

    def map_pieces(
        self, function: Callable[[Any, Sequence], Sequence], pieces: Iterable[Sequence], urgent: bool = False
    ) -> Iterator[list]:
        """Yield the results of each piece, in order.

        Args:
            function: Function of a module, or a partial of one: called with what `setup` loads and a piece, it returns
                a result for each item.
            pieces: The pieces; they are taken only as workers need them.
            urgent: Whether workers do these pieces before pieces of another call.

        Returns:
            A list for each piece: for each of its items the result, or a `ClusterError` if workers with this item alone
                were killed too often.

        Raises:
            ClusterError: A worker cannot load or import what it needs, there was no worker for `wait` seconds, or the
                scheduler is lost.
        """
        waiting, remaining = deque(), iter(pieces)
        has_more = True
        try:
            while has_more or waiting:
                while has_more and self._takes_more(waiting):
                    piece = next(remaining, None)
                    has_more = piece is not None
                    if has_more:
                        waiting.append(_Task(piece, self._submit(function, piece, urgent)))
                if waiting:
                    if waiting[0].future.done():
                        yield self._results(function, waiting.popleft(), urgent)
                    else:
                        self._wait([task.future for task in waiting if not task.future.done()])
        finally:
            self._client.cancel([task.future for task in waiting])

    def _takes_more(self, waiting: Collection["_Task"]) -> bool:
        begun = sum(not task.future.done() for task in waiting)
        return begun < _AHEAD * self._options.workers and len(waiting) < _MOST_WAITING * self._options.workers

    def _submit(self, function: Callable, items: Sequence, urgent: bool) -> "Future":
        return self._client.submit(Work(self._setup, function, items), pure=False, priority=int(urgent))

    def _results(self, function: Callable, task: "_Task", urgent: bool) -> list:
        from distributed import KilledWorker

        try:
            return task.future.result()
        except KilledWorker as error:
            if len(task.items) > 1:  # one after another, as a death counts against all pieces sent to the worker
                return [one for item in task.items for (one,) in self.map_pieces(function, [[item]], urgent)]
            times = self._options.retries + 1
            return [ClusterError(f"its worker was killed {times} times ({error.last_worker.address}); see its log")]
        except UserError:
            raise
        except CancelledError as error:
            raise ClusterError("the scheduler of the cluster is lost; run the same command again") from error
        except ImportError as error:
            raise ClusterError(f"a worker cannot import what it needs: {error}; check its environment") from error

    def _wait(self, futures: Sequence["Future"]) -> None:
        """Wait until one of the futures is done.

        Raises:
            ClusterError: There was no worker for too long.
        """
        from distributed import wait

        last_seen = time.monotonic()
        while True:
            with suppress(CancelledError):  # `_results` explains it
                try:
                    wait(futures, timeout=min(_LOOK_SECONDS, self._options.wait), return_when="FIRST_COMPLETED")
                except TimeoutError:
                    last_seen = time.monotonic() if self._client.nthreads() else last_seen
                    self._check_wait(time.monotonic() - last_seen)
                    continue
            return

    def _check_wait(self, seconds: float) -> None:
        if seconds >= self._options.wait:
            reason = f"no worker of the cluster ({self._options.kind}) for {self._options.wait} s"
            raise ClusterError(f"{reason}; see the logs of its workers, or raise `wait` in its configuration")


def _ask(function: Callable[[Any], Any], loaded: Any, _: Sequence[None]) -> list:
    return [function(loaded)]


def _each(function: Callable[[Any], Any], _: Any, items: Sequence) -> list:
    return [function(item) for item in items]


class _Task(NamedTuple):
    """A piece of work that was sent."""

    items: Sequence
    future: "Future"
