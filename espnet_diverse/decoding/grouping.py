"""Batches of items of similar length, and results item by item where a batch fails."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from espnet_diverse.errors import UserError

log = logging.getLogger(__name__)


def grouped[Item](
    items: Iterable[Item], length: Callable[[Item], int], batch_size: int, batch_frames: int
) -> Iterator[list[Item]]:
    """Group items into batches, longest first, so that batches hold little padding.

    Args:
        items: The items.
        length: Gives the number of frames of an item.
        batch_size: Maximum number of items in a batch.
        batch_frames: Maximum number of frames in a batch, padding included; an item with more has its own batch.
    """
    batch: list[Item] = []
    for item in sorted(items, key=length, reverse=True):
        if batch and (len(batch) == batch_size or (len(batch) + 1) * length(batch[0]) > batch_frames):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def each_result[Item, Result](
    function: Callable[[Sequence[Item]], Sequence[Result]], batch: Sequence[Item]
) -> list[Result | Exception]:
    """Results of `function` for a batch; if it raises, the result or exception of each item alone.

    The exception of a batch of several items is logged, because no item alone may raise it; with its traceback, unless
    it is an error that the user can fix.
    """
    try:
        return list(function(batch))
    except Exception as error:  # of any kind, so that the other items still have results
        if len(batch) == 1:
            return [error]
        reason, trace = f"{type(error).__name__}: {error}", None if isinstance(error, UserError) else error
        log.warning("a batch of %d failed and is done one by one: %s", len(batch), reason, exc_info=trace)
        return [result for one in batch for result in each_result(function, [one])]
