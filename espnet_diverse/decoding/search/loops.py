"""Texts of a decoder that repeats itself without end, as Whisper's sometimes does."""

from collections.abc import Sequence

from espnet_diverse.decoding.search.beam import Hypothesis

_REPEATS = 3  # a text that ends with fewer repetitions is kept


def without_loops(hypotheses: Sequence[Hypothesis], most: int) -> list[Hypothesis]:
    """Hypotheses whose endless repetitions are cut after the first.

    The same words may be spoken several times, so that short hypotheses stay. A decoder in a loop stops near the
    greatest length of its training, which nobody speaks in that time.

    Args:
        hypotheses: Hypotheses of an utterance.
        most: Greatest number of tokens of its hypotheses.
    """
    return [each._replace(tokens=_cut(each.tokens)) if 2 * len(each.tokens) >= most else each for each in hypotheses]


def _cut(tokens: list[int]) -> list[int]:
    """Tokens up to the end of the first of several repetitions with which they end."""
    for period in range(1, len(tokens) // _REPEATS + 1):
        repeated = 0  # tokens that equal the one a period before
        while repeated < len(tokens) - period and tokens[-1 - repeated] == tokens[-1 - repeated - period]:
            repeated += 1
        if repeated >= (_REPEATS - 1) * period:
            return tokens[: len(tokens) - repeated]
    return tokens
