import math

import pytest

from espnet_diverse.decoding.prediction import rounded_probability, rounded_score


@pytest.mark.parametrize(
    ("score", "written"),
    [
        (-11.288329363, "-11.2883"),  # of an utterance decoded alone
        (-11.288329601, "-11.2883"),  # and in a batch
        (-0.123456, "-0.1235"),
        (-123.456789, "-123.457"),
        (-98765.4321, "-98765.4"),
        (-1e-7, "0"),
        (-math.inf, "-inf"),
    ],
)
def test_a_score_is_written_with_the_digits_that_are_certain(score, written):
    assert f"{rounded_score(score):g}" == written
    assert float(written) == rounded_score(score)


@pytest.mark.parametrize(("probability", "written"), [(0.123456, 0.1235), (1e-7, 0.0), (1.0, 1.0)])
def test_a_probability_is_written_with_four_decimals(probability, written):
    assert rounded_probability(probability) == written
