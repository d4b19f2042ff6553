"""The greedy search for windows: from wide ones to narrow ones, as long as the loss allows it.

A level is the index of the width of a head's window, 0 for the narrowest. A step lowers the level of one head. Of the
steps that keep the mean loss within a limit, the search takes the one whose loss rises least for each pair of positions
that it saves, until none is left; of steps without a rise it takes the one that saves most pairs. Losses are measured
for the whole model, never added up.

A step is measured when, by what it is expected to do, it is the best of all, and it is taken if it still is: the
accelerated greedy algorithm of Minoux 1978, "Accelerated greedy algorithms for maximizing submodular set functions".
What is expected is at first a given number, then what was measured before other steps were taken. A head whose step
exceeds the limit is left as it is.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

Measure = Callable[[NDArray, NDArray], NDArray]
"""Function from the levels of all heads (N, H) to the loss of each utterance (U,); the second argument has the levels
that the search has taken, most of which are the same."""


@dataclass(frozen=True)
class State:
    """Windows of all heads and the losses with them.

    Attributes:
        levels: Index of the width of each head (N, H).
        losses: Loss of each utterance (U,).
        share: Share of the mean weight that the windows were proposed by; None for steps of the search.
    """

    levels: NDArray
    losses: NDArray
    share: float | None = None

    @property
    def mean(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())


def propose(proposals: Sequence[tuple[float, NDArray]], measure: Measure, most: float) -> list[State]:
    """Measure proposals, of which each is wider than the one before, to find the narrowest within the limit.

    It is found by bisection, as if the loss fell with the width; the one that is taken is within the limit in any case.

    Args:
        proposals: Shares and levels; the last levels are the widest, which are taken if no others are within the limit.
        measure: Gives the losses.
        most: Greatest mean loss.

    Returns:
        All that were measured, the one that is taken last.
    """
    measured: list[State] = []

    def state(number: int) -> State:
        share, levels = proposals[number]
        known = next((candidate for candidate in measured if (candidate.levels == levels).all()), None)
        if known is None:
            known = State(levels, measure(levels, levels), share)
            measured.append(known)
        return known

    low, high = 0, len(proposals) - 1
    while low < high:
        middle = (low + high) // 2
        if state(middle).mean <= most:
            high = middle
        else:
            low = middle + 1
    last = state(high)
    return [*(candidate for candidate in measured if candidate is not last), last]


def narrow(
    start: State,
    measure: Measure,
    pairs: Sequence[int] | NDArray,
    most: float,
    expected: NDArray | None = None,
    passes: float = inf,
) -> list[State]:
    """Lower the levels of heads one by one.

    Args:
        start: Where the search begins.
        measure: Gives the losses.
        pairs: Number of pairs of positions that a head computes at each level, ascending.
        most: Greatest mean loss.
        expected: Expected rise of the mean loss by a step of each head from each level, (N, H, W); None is 0, so that
            all steps are measured before one is taken.
        passes: How often `measure` may be called.

    Returns:
        The states that were taken, `start` first.
    """
    path, remaining = [start], passes
    # Rise for a pair, negative number of saved pairs, head, length of the path when it was measured, state.
    queue: list[tuple[float, float, tuple[int, ...], int, State | None]] = []

    def put(head: tuple[int, ...], rise: float | None = None, found: State | None = None) -> None:
        level = path[-1].levels[head]
        if level > 0:
            rise = (0.0 if expected is None else expected[head][level]) if rise is None else max(rise, 0.0)
            saved = pairs[level] - pairs[level - 1]
            heapq.heappush(queue, (rise / max(saved, 1), -saved, head, len(path), found))

    for head in np.ndindex(*start.levels.shape):
        put(head)
    while queue:
        _, _, head, length, state = heapq.heappop(queue)
        if state is not None and length == len(path):
            path.append(state)
            put(head)
        elif remaining >= 1:
            remaining -= 1
            levels = path[-1].levels.copy()
            levels[head] -= 1
            state = State(levels, measure(levels, path[-1].levels))
            if state.mean <= most:
                put(head, state.mean - path[-1].mean, state)
    return path
