import math

import pytest

from espnet_diverse.decoding.options import Options
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam_size": 0}, "beam_size 0 is not allowed; give a whole number of at least 1"),
        ({"beam_size": 2.5}, "beam_size 2.5 is not allowed"),
        ({"batch_size": 0}, "batch_size 0 is not allowed; give a whole number of at least 1"),
        ({"search": "beam"}, "search 'beam' is unknown; known: batched greedy sampling espnet"),
        ({"ctc_weight": 1.5}, "ctc_weight 1.5 is not allowed; give a number between 0 and 1"),
        ({"top_k": -1}, "top_k -1 is not allowed; give a whole number of at least 0"),
        ({"seed": 0.5}, "seed 0.5 is not allowed; give a whole number of at least 0"),
        ({"temperature": 0.0}, "temperature 0.0 is not allowed; give a number greater than 0"),
        ({"ctc_weight": "abc"}, "ctc_weight 'abc' is not allowed; give a number$"),
        ({"ctc_weight": True}, "ctc_weight True is not allowed; give a number$"),
        ({"temperature": "abc"}, "temperature 'abc' is not allowed; give a number$"),
        ({"temperature": math.inf}, "temperature inf is not allowed; give a number$"),
        ({"penalty": "abc"}, "penalty 'abc' is not allowed; give a number$"),
        ({"penalty": math.nan}, "penalty nan is not allowed; give a number$"),
        ({"penalty": None}, "penalty None is not allowed; give a number$"),
        ({"minlenratio": [1]}, r"minlenratio \[1\] is not allowed; give a number$"),
        ({"maxlenratio": "abc"}, "maxlenratio 'abc' is not allowed; give a number$"),
        ({"length_penalty": "abc"}, "length_penalty 'abc' is not allowed; give a number of at least 0"),
        (
            {"batch_size": 10**20},
            "batch_size 1" + 20 * "0" + " is not allowed; give a whole number of at most 2147483647",
        ),
        ({"maxlenratio": 1e20}, r"maxlenratio 1e\+20 is not allowed; give a number of at most 2147483647"),
        ({"nbest": True}, "nbest True is not allowed; give a whole number of at least 1"),
        ({"seed": None}, "seed None is not allowed; give a whole number of at least 0"),
        ({"search": None}, "search None is unknown; known: batched greedy sampling espnet"),
        ({"length_penalty": -1.0}, "length_penalty -1.0 is not allowed; give a number of at least 0"),
        ({"length_penalty": 1.0, "search": "espnet"}, "length_penalty 1.0 is for search=batched, not espnet; set 0"),
    ],
)
def test_options_out_of_range(options, said):
    with pytest.raises(ConfigError, match=said):
        Options(**options)


def test_numbers_may_be_whole_or_negative_and_the_weight_of_ctc_may_be_left_out():
    options = Options(ctc_weight=None, penalty=-1, minlenratio=-3, maxlenratio=1, temperature=2, length_penalty=1)
    assert (options.ctc_weight, options.penalty, options.maxlenratio) == (None, -1, 1)
