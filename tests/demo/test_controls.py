import pytest

from espnet_diverse.conditions import values_by_condition
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.demo.controls import condition_controls, search_options, whole
from espnet_diverse.errors import ConfigError

LANGUAGES = {"lang": ["el", "es"], "tgtlang": ["el", "es"], "domain": ["read", "talks"]}


def control(argument, label, names, free=None):
    return {"argument": argument, "label": label, "names": names, "free": free}


def test_a_language_that_is_spoken_can_be_found():
    known = KnownConditions(LANGUAGES, {"domain": "talks"})
    language = control("language", "Language", ["el", "es"], "identify it")
    domain = control("domain", "Domain", ["read", "talks"], "default (talks)")
    assert condition_controls(known, "asr") == [language, domain]  # the text is in the language that is spoken
    target = control("target_language", "Target language", ["el", "es"])
    assert condition_controls(known, "st") == [language, target, domain]
    assert condition_controls(known, "mt") == [{**language, "free": None}, target, domain]


def test_a_single_language_and_a_target_language_must_be_chosen():
    assert condition_controls(KnownConditions({"lang": ["el"]}), "asr") == [control("language", "Language", ["el"])]
    known = KnownConditions({"tgtlang": ["el", "es"]})
    assert condition_controls(known, "asr") == [control("target_language", "Target language", ["el", "es"])]
    assert condition_controls(KnownConditions(), "asr") == []


def test_tasks_by_axis():
    chosen = {"language": "", "target_language": "es", "domain": "read", "beam_size": "3"}
    assert values_by_condition(chosen) == {"tgtlang": "es", "domain": "read"}


def test_search_options():
    options = SearchOptions(beam_size=8, ctc_weight=0.5)
    assert search_options(options, {}) == options
    assert search_options(options, {"beam_size": "4", "nbest": "2"}) == SearchOptions(4, 0.5, nbest=2)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"beam_size": "51"}, "beam_size must be at least 1 and at most 50, but is 51"),
        ({"beam_size": "-1"}, "beam_size must be at least 1 and at most 50, but is -1"),
        ({"nbest": "0"}, "nbest must be at least 1 and at most 50, but is 0"),
        ({"nbest": "many"}, "nbest must be a whole number, but is 'many'"),
        ({"beam_size": "2", "nbest": "3"}, "nbest 3 is greater than beam_size 2; increase beam_size"),
    ],
)
def test_search_options_that_are_not_allowed(chosen, message):
    with pytest.raises(ConfigError, match=message):
        search_options(SearchOptions(), chosen)


def test_a_number_that_is_not_given():
    assert whole({"layer": ""}, "layer") is whole({}, "layer") is None and whole({"layer": "3"}, "layer") == 3
