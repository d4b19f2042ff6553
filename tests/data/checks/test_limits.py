"""Limits of the length of utterances."""

import pytest

from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize(("least", "greatest"), [(0.0, 5.0), (5.0, 5.0), (0.1, float("nan"))])
def test_the_least_length_is_above_zero_and_below_the_greatest(least, greatest):
    assert Limits(0.1, 5.0) != Limits()
    with pytest.raises(ConfigError, match=f"^--min_seconds {least:g} must be above 0 and below --max_seconds$"):
        Limits(least, greatest)
