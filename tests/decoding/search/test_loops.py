"""Endless repetitions are cut after the first; texts that end are kept."""

import pytest

from espnet_diverse.decoding.search.beam import Hypothesis
from espnet_diverse.decoding.search.loops import without_loops


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([1, 2, 3, 4, 3, 4, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3, 4, 3, 4, 3, 4, 3], [1, 2, 3, 4]),
        ([5, 5, 5, 5], [5]),
        ([1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 2, 3]),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([], []),
    ],
)
def test_a_text_of_half_the_greatest_length(tokens, kept):
    (found,) = without_loops([Hypothesis(tokens, -1.5)], 2 * len(tokens))
    assert found == Hypothesis(kept, -1.5)
    assert without_loops([Hypothesis(tokens, -1.5)], 2 * len(tokens) + 1) == [Hypothesis(tokens, -1.5)]
