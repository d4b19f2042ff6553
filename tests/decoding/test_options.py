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
        ({"length_penalty": -1.0}, "length_penalty -1.0 is not allowed; give a number of at least 0"),
        ({"length_penalty": 1.0, "search": "espnet"}, "length_penalty 1.0 is for search=batched, not espnet; set 0"),
    ],
)
def test_options_out_of_range(options, said):
    with pytest.raises(ConfigError, match=said):
        Options(**options)
