"""Computation of long sequences in parts, without gradients, so that memory holds one part besides input and output.

The projections of attention and the inner layer of a feed-forward network take many times the memory of the sequence
itself. An output that depends on positions at most `reach` away is computed from a part with `reach` more positions on
either side; it equals the output for the whole sequence up to rounding.
"""

from collections.abc import Callable, Iterator

from torch import Tensor

PART = 2048
"""Positions of a part: 82 seconds of speech after subsampling by 4."""


def is_long(time: int, reach: int = 0) -> bool:
    """Return whether a sequence of `time` positions is longer than any part with `reach` positions on either side."""
    return time > PART + 2 * reach


def slices(time: int, multiple_of: int = 1) -> Iterator[slice]:
    """Return the parts of a sequence of `time` positions; all but the last are a multiple of `multiple_of` long."""
    size = max(PART // multiple_of, 1) * multiple_of
    return (slice(start, min(start + size, time)) for start in range(0, time, size))


def by_parts(function: Callable[[slice], Tensor], time: int, reach: int = 0, multiple_of: int = 1) -> Tensor:
    """Compute an output of `time` positions part by part.

    Args:
        function: Computes the output (B, L, M) of L positions. What it gives for the first and the last `reach` of them
            is only used at the ends of the sequence, and what it gives beyond them is not used.
        time: Number of positions T.
        reach: Greatest distance of a position that an output depends on.
        multiple_of: Divisor of the lengths of all parts but the last.

    Returns:
        Output (B, T, M).
    """
    out: Tensor | None = None
    for part in slices(time, multiple_of):
        near = slice(max(0, part.start - reach), min(time, part.stop + reach))
        chunk = function(near)[:, part.start - near.start : part.stop - near.start]
        if out is None:
            out = chunk.new_empty(len(chunk), time, chunk.size(-1))
        out[:, part] = chunk
    assert out is not None  # time is at least 1
    return out
