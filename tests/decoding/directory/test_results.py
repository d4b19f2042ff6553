import math

import pytest

from espnet_diverse.decoding.directory.results import Result, rounded_probability, rounded_score, summary


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


RESULTS = [
    Result("u1", "ein Wört\n", -1.25, None, 0.1, 3, (("ein Wört\n", -1.25), ("", -math.inf))),
    Result("u2", failure="DataError: gone"),
    Result("u3", seconds=0.2),
]


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_is_as_before_its_way_through_a_file(result):
    assert "\n" not in result.to_json()
    assert Result.from_json(result.to_json()) == result


def test_failures_count_apart():
    found = summary(RESULTS, 2.0)
    assert [found[name] for name in ("utterances", "failed", "empty", "tokens", "tokens_per_second")] == [
        2,
        1,
        1,
        3,
        1.5,
    ]
    assert found["audio_seconds"] == pytest.approx(0.3) and "audio_seconds" not in summary(
        [Result("u")._replace(tokens=1)], 1
    )
