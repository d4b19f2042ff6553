"""The section `repulsion` of a configuration: what is read and what is refused."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.repulsion_options import read_repulsion


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("svgd", "'svgd' is not a mapping of options; write repulsion: {method: svgd}"),
        ({"alpa": 1}, "repulsion has no option 'alpa'; known: method alpha alpha_mode"),
        ({"method": "svdg"}, "unknown method 'svdg'; known: svgd spos sgld cosine none"),
        ({"alpha": -1}, "alpha -1 is negative; give 0 or more"),
        ({"num_data": 1.5}, "num_data 1.5 is not a whole number"),
        ({"epsilon": 0}, "epsilon 0 would divide by zero; give a number above 0"),
        ({"bandwidth": "median"}, "bandwidth 'median' is not allowed; give paper official or a number"),
        ({"bandwidth": 0}, "bandwidth 0 is not allowed; give paper official or a number"),
        ({"projections": ["q", "o"]}, r"projections \['q', 'o'\] is not allowed; give a list of some of q k v"),
        ({"modules": []}, r"modules \[\] is not allowed; give a list of some of encoder_self decoder_self cross"),
        ({"modules": "cross"}, "modules 'cross' is not allowed; give a list of some of encoder_self"),
    ],
)
def test_wrong_options_are_refused(section, said):
    with pytest.raises(ConfigError, match=said):
        read_repulsion(section)


@pytest.mark.parametrize("method", ["svgd", "spos", "sgld", "cosine"])
def test_the_fragments_are_read(method):
    assert read_repulsion(merge([f"repulsion/{method}"])["repulsion"]).method == method
