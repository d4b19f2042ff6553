"""Endless repetitions are cut after the first, and texts without speech are empty."""

import pytest

from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.unspoken import heard, without_loops


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([1, 2, 3, 4, 3, 4, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3, 4, 3, 4, 3, 4, 3], [1, 2, 3, 4]),
        ([5, 5, 5, 5], [5]),
        ([1, 3, 4, 3, 4, 3, 4, 4, 3], [1, 3, 4]),
        ([3, 4, 3, 4, 3, 4, 1, 2, 5, 6, 7, 8, 9], [3, 4, 3, 4, 3, 4, 1, 2, 5, 6, 7, 8, 9]),
        ([1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 2, 3]),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([], []),
    ],
)
def test_repetitions_of_half_the_greatest_length(tokens, kept):
    (found,) = without_loops([Hypothesis(tokens, -1.5)], 2 * len(tokens))
    assert found == Hypothesis(kept, -1.5)
    assert without_loops([Hypothesis(tokens, -1.5)], 2 * len(tokens) + 1) == [Hypothesis(tokens, -1.5)]


@pytest.mark.parametrize(
    ("no_speech", "score", "kept"),
    [(0.7, -4.1, []), (0.7, -3.9, [1, 2, 3]), (0.5, -40.0, [1, 2, 3])],
)
def test_a_text_without_speech(no_speech, score, kept):
    others = [Hypothesis([4], score - 1)]
    found = heard([Hypothesis([1, 2, 3], score), *others], no_speech)
    assert found == [Hypothesis(kept, score), *(others if kept else [])]
    assert heard([], no_speech) == []
