import math

import pytest

from espnet_diverse.decoding.options import SearchOptions, options_of, usual_ctc_weight, with_keywords
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1 and at most 2147483647, but is 0"),
        ({"beam_size": 2.5}, "beam_size must be a whole number, but is 2.5"),
        ({"batch_size": 0}, "batch_size must be at least 1 .* but is 0"),
        ({"batch_size": 10**20}, "batch_size must be .* at most 2147483647, but is 1" + 20 * "0"),
        ({"search": "beam"}, "search must be one of batched greedy sampling espnet, but is 'beam'"),
        ({"search": None}, "search must be one of .* but is None"),
        ({"ctc_weight": 1.5}, "ctc_weight must be at least 0 and at most 1, but is 1.5"),
        ({"ctc_weight": True}, "ctc_weight must be a number, but is True"),
        ({"top_k": -1}, "top_k must be at least 0 .* but is -1"),
        ({"seed": None}, "seed must be a whole number, but is None"),
        ({"nbest": True}, "nbest must be a whole number, but is True"),
        ({"temperature": 0.0}, "temperature must be at least 1e-06 .* but is 0.0"),
        ({"temperature": math.inf}, "temperature must be .* but is inf"),
        ({"penalty": math.nan}, "penalty must be a number, but is nan"),
        ({"penalty": None}, "penalty must be a number, but is None"),
        ({"minlenratio": [1]}, r"minlenratio must be a number, but is \[1\]"),
        ({"maxlenratio": 1e20}, r"maxlenratio must be .* at most 2147483647, but is 1e\+20"),
        ({"length_penalty": 500}, "length_penalty must be at least 0 and at most 10, but is 500"),
        ({"temperature": 1e-320}, "temperature must be at least 1e-06 .* but is 1e-320"),
        ({"minlenratio": -5, "maxlenratio": -3}, "minlenratio -5 cannot be combined with maxlenratio=-3"),
        ({"minlenratio": 0.8, "maxlenratio": 0.5}, "minlenratio 0.8 cannot be combined with maxlenratio=0.5"),
        ({"length_penalty": -1.0}, "length_penalty must be at least 0 .* but is -1.0"),
        ({"length_penalty": 1.0, "search": "espnet"}, "length_penalty 1.0 cannot be combined with search=espnet"),
    ],
)
def test_options_out_of_range(options, said):
    with pytest.raises(ConfigError, match=said):
        SearchOptions(**options)


def test_numbers_may_be_whole_or_negative_and_the_weight_of_ctc_may_be_left_out():
    options = SearchOptions(ctc_weight=None, penalty=-1, minlenratio=-3, maxlenratio=1, temperature=2, length_penalty=1)
    assert (options.ctc_weight, options.penalty, options.maxlenratio) == (None, -1, 1)


@pytest.mark.parametrize("given", [None, {"nbest": 3}, SearchOptions(nbest=3), SearchOptions(nbest=3, beam_size=2)])
def test_keywords_of_a_call_join_its_options(given):
    nbest = 3 if given else 1
    assert options_of(with_keywords(given, {"beam_size": 4}, [])) == SearchOptions(beam_size=4, nbest=nbest)
    assert with_keywords(given, {}, []) == given


def test_keywords_that_are_no_options_are_refused():
    for wrong, near in (("beam", "beam_size"), ("langauge", "language"), ("hot_words", "hotwords")):
        with pytest.raises(ConfigError, match=f"unknown option '{wrong}' of the search; did you mean '{near}'"):
            with_keywords(None, {wrong: 3}, ["language", "hotwords"])
    for other, ours in (("task", "target_language="), ("vad_filter", "segmentation="), ("initial_prompt", "hotwords=")):
        with pytest.raises(ConfigError, match=f"unknown option '{other}' of the search; .*{ours}"):
            with_keywords(None, {other: "x"}, ["language", "hotwords"])
    with pytest.raises(ConfigError, match="the search must be a mapping of options"):
        with_keywords(3, {"beam_size": 4}, [])


@pytest.mark.parametrize(
    ("task", "config", "weight"),
    [
        ("asr", {}, 0.3),
        ("asr", {"model_conf": {"ctc_weight": 1.0}}, 1.0),
        ("asr", {"model_conf": {"ctc_weight": 0.3, "ctc_labels": "bytes"}}, 0.0),
        ("asr", {"decoder": "transducer"}, 0.0),
        ("s2t", {}, 0.0),
        ("s2t_ctc", {}, 1.0),
    ],
)
def test_the_usual_weight_of_ctc(task, config, weight):
    assert usual_ctc_weight(config, task) == weight
