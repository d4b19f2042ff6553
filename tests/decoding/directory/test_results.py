import math

import pytest

from espnet_diverse.decoding.directory.results import Result, summary

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
