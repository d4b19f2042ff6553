"""Names of options: unknown ones are refused, those of former models are read."""

import math
from dataclasses import dataclass, field, make_dataclass

import pytest

from espnet_diverse.option_checks import (
    OptionError,
    UnknownOptionError,
    check_fields,
    hint,
    read,
    with_present_names,
)


@dataclass
class Options:
    pool: int = 8
    conditions: dict = field(default_factory=dict)


def test_options_are_read():
    assert read(Options, {"pool": 3}, "selection") == Options(3)


def test_an_unknown_option_is_refused():
    with pytest.raises(UnknownOptionError) as error:
        read(Options, {"pol": 3}, "selection")
    assert str(error.value) == "selection has no option 'pol'; known: pool conditions"
    assert error.value.name == "pol"


def test_no_number_is_nan():
    options = make_dataclass("Rates", [("rate", float, 0.5)])
    check_fields(options(math.inf))
    with pytest.raises(OptionError, match="^rate nan is not a number"):
        check_fields(options(math.nan))


def test_the_hint_is_the_most_similar_name_or_the_known_ones():
    assert hint("pol", ["pool", "conditions"], "selection") == "did you mean 'pool'?"
    assert hint("x", ["pool", "conditions"], "selection") == "known: pool conditions"
    assert hint("x", [], "attention 'softmax'") == "attention 'softmax' has no options"


def test_options_of_a_former_version_have_their_present_names():
    names = {"lang": ["de", "en"]}
    former = {
        "tasks": "an option of something else",
        "model_conf": {"tasks": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"tasks": names, "default_task": {"lang": "de"}}}},
        "decoder_conf": {"start_tag": {"by": "lang", "tasks": names}, "tasks": 3},
        "optim_conf": None,
    }
    present = {
        "tasks": "an option of something else",
        "model_conf": {"conditions": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"conditions": names, "default_condition": {"lang": "de"}}}},
        "decoder_conf": {"start_tag": {"by": "lang", "conditions": names}, "tasks": 3},
        "optim_conf": None,
    }
    assert with_present_names(former) == with_present_names(present) == present
    with pytest.raises(UnknownOptionError):  # of a new configuration
        read(Options, {"tasks": names}, "selection")
