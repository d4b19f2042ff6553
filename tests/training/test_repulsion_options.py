"""The section `repulsion` of a configuration: what is read and what is refused."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.repulsion_options import read_repulsion


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("svgd", "repulsion must be a mapping of options, such as {method: ...}, but is 'svgd'"),
        ({"alpa": 1}, "unknown option 'alpa'"),
        ({"method": "svdg"}, "method must be one of svgd spos sgld cosine none, but is 'svdg'"),
        ({"alpha": -1}, "alpha must be at least 0, but is -1"),
        ({"num_data": 1.5}, "num_data must be a whole number, but is 1.5"),
        ({"epsilon": 0}, "epsilon must be above 0, but is 0"),
        ({"bandwidth": "median"}, "bandwidth must be a number or paper or official, but is 'median'"),
        ({"bandwidth": 0}, "bandwidth must be above 0 or paper or official, but is 0"),
        ({"projections": ["q", "o"]}, "projections must be one of q k v, but is 'o'"),
        ({"modules": []}, r"modules must be a list of at least 1, but is \[\]"),
        ({"modules": "cross"}, "modules must be a list of at least 1, but is 'cross'"),
    ],
)
def test_wrong_options_are_refused(section, said):
    with pytest.raises(ConfigError, match=said):
        read_repulsion(section)


@pytest.mark.parametrize("method", ["svgd", "spos", "sgld", "cosine"])
def test_the_fragments_are_read(method):
    assert read_repulsion(merge([f"repulsion/{method}"])["repulsion"]).method == method
