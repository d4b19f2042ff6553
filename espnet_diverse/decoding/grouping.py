"""Batches of things of like length, and whose fault it is when one fails."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def grouped(
    items: Iterable[Item], length: Callable[[Item], int], batch_size: int, batch_frames: int
) -> Iterator[list[Item]]:
    """Batches of items, longest first, so that they hold little padding.

    Args:
        items: What is batched.
        length: Its number of frames.
        batch_size: Items that a batch has at most.
        batch_frames: Frames, with those of padding, that it has at most unless it is one item.
    """
    batch: list[Item] = []
    for item in sorted(items, key=length, reverse=True):
        if batch and (len(batch) == batch_size or (len(batch) + 1) * length(batch[0]) > batch_frames):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def each_result(
    function: Callable[[Sequence[Item]], Sequence[Result]], batch: Sequence[Item]
) -> list[Result | Exception]:
    """What `function` gives for each item of a batch, or the error; where the batch fails, each item is tried alone."""
    try:
        return list(function(batch))
    except Exception as error:  # whatever it is, it must not cost the other items
        return [error] if len(batch) == 1 else [found for one in batch for found in each_result(function, [one])]
