"""Options of the bootstrap: their defaults are sacrebleu's, and their least values."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.bootstrap_options import BootstrapOptions


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"samples": 99}, "^samples must be at least 100, but is 99$"),
        ({"seed": -1}, "^seed must be at least 0, but is -1$"),
    ],
)
def test_a_bootstrap_that_cannot_be(arguments, message):
    assert vars(BootstrapOptions()) == {"samples": 1000, "seed": 12345}
    assert BootstrapOptions(100, seed=0).samples == 100
    with pytest.raises(ConfigError, match=message):
        BootstrapOptions(**arguments)
