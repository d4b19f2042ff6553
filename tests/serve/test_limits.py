"""Limits of requests."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.serve.limits import Limits


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_that_are_none(value):
    with pytest.raises(ConfigError, match=rf"max_seconds must be (a number|a finite number|above 0), but is {value}"):
        Limits(seconds=value)
    with pytest.raises(ConfigError, match=rf"max_request_seconds must be .*, but is {value}"):
        Limits(request_seconds=value)
    with pytest.raises(ConfigError, match=rf"max_megabytes must be (a number|a finite number|above 0), but is {value}"):
        Limits(megabytes=value)


def test_an_upload_is_counted_in_bytes():
    assert Limits(megabytes=0.5).bytes == 500_000
    assert Limits(megabytes=1e-7).bytes == 0
