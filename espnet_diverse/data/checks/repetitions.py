"""Search for values that occur several times among millions of rows, without keeping the rows."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

DIGEST = 16
"""Bytes of the digests of `same_digests`."""


def most_of(texts: Collection[str]) -> tuple[str, int]:
    """The text that makes up more than half of `texts`, and how often it occurs; any text if there is none.

    Boyer and Moore 1991, "MJRTY, a fast majority vote algorithm": two passes, and one text is kept.
    """
    candidate, lead = "", 0
    for text in texts:
        if not lead:
            candidate = text
        lead += 1 if text == candidate else -1
    return candidate, sum(text == candidate for text in texts)


def alike(names: Iterable[str], reduced: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Names that are equal to an earlier one once reduced, in their order, each with the first such name.

    Args:
        names: Different names; they are read twice.
        reduced: Returns the part of a name that is compared.
    """
    hashes = np.fromiter((hash(reduced(name)) for name in names), np.int64)
    hashes.sort()
    several = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
    if not several:
        return
    first: dict[str, str] = {}
    for name in names:
        if hash(key := reduced(name)) in several and first.setdefault(key, name) != name:
            yield name, first[key]


def in_both(texts: Collection[str], others: Collection[str]) -> set[str]:
    """The texts that are in both collections; the collections are read twice."""
    if not texts or not others:
        return set()
    hashes = [np.fromiter(map(hash, collection), np.int64) for collection in (texts, others)]
    several = set(np.intersect1d(*hashes).tolist())
    maybe = {text for text in texts if several and hash(text) in several}
    return {text for text in others if maybe and text in maybe}


def same_digests(rows: array, digests: bytearray) -> Iterator[tuple[int, int]]:
    """Rows with the digest of an earlier row, in their order, each with the first such row.

    Args:
        rows: Number of each row, increasing.
        digests: Digests of the rows, `DIGEST` bytes each, one after the other.
    """
    words = np.frombuffer(digests, np.uint64).reshape(len(rows), 2)
    order = np.lexsort(words.T)  # stable: the first row of equal digests stays the first
    again = np.zeros(len(order), bool)
    again[1:] = (words[order[1:]] == words[order[:-1]]).all(axis=1)
    starts = np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))
    pairs = sorted((rows[later], rows[first]) for later, first in zip(order[again], order[starts[again]], strict=True))
    yield from pairs
