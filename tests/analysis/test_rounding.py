import math

import pytest

from espnet_diverse.analysis.rounding import certain, half_interval


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([21.8605], "21.86"),
        ([0.5, 0.5, 0.5], "0.50"),
        ([0.1, 0.1, 0.1], "0.10"),
        ([10.0, 12.0, 14.0, 16.0], "13 ± 4"),  # 3.182 * 2.582 / 2 = 4.1
        ([0.45, 0.46, 0.44, 0.45], "0.45 ± 0.01"),
        ([1000.0, 3000.0, 2000.0], "2000 ± 2484"),
        ([math.nan, math.nan], "–"),
    ],
)
def test_digits_match_the_interval(values, shown):
    assert certain(values) == shown


def test_the_interval_is_students():
    assert half_interval([10.0, 12.0, 14.0, 16.0]) == pytest.approx(3.1824 * 2.58199 / 2, rel=1e-4)
    assert math.isnan(half_interval([1.0]))
