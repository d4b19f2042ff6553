"""Names of options: unknown ones are refused, former ones are read with a warning."""

import logging
import math
from dataclasses import dataclass, field, make_dataclass

import pytest

from espnet_diverse import option_checks
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import (
    OptionError,
    UnknownOptionError,
    check_fields,
    hint,
    present_keys,
    read,
    renamed,
    with_present_names,
)


@dataclass
class Options:
    pool: int = 8
    conditions: dict = field(default_factory=dict)


@pytest.fixture(autouse=True)
def warned(caplog):
    """The warnings of a test, in which no former name has been met before."""
    option_checks._warn.cache_clear()
    caplog.set_level(logging.WARNING)
    return caplog


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


def test_a_former_name_is_read_and_warned_of_once(warned):
    for _ in range(3):
        assert read(Options, {"tasks": {"lang": ["de"]}}, "selection") == Options(conditions={"lang": ["de"]})
    assert warned.messages == ["selection: option 'tasks' is now called 'conditions'; the former name is still read"]


def test_a_former_name_of_another_option_is_an_unknown_option(warned):
    with pytest.raises(UnknownOptionError, match="selection has no option 'default_task'; known: pool conditions"):
        read(Options, {"default_task": {"lang": "de"}}, "selection")
    config = {"decoder_conf": {"adapter": {"default_task": {"lang": "de"}}}}
    assert with_present_names(config, "a.yaml") == config
    assert present_keys(("adapter", "default_task")) == ("adapter", "default_task")
    assert warned.messages == []


def test_both_names_of_an_option_are_refused():
    given = {"default_task": {"lang": "de"}, "default_condition": {"lang": "en"}}
    with pytest.raises(ConfigError, match="default_task is the former name of default_condition; give default_cond"):
        renamed(given, ["default_condition"], "selection")
    with pytest.raises(ConfigError, match="a.yaml: x.selection: default_task is the former name"):
        with_present_names({"x": {"selection": given}}, "a.yaml")


def test_a_configuration_with_former_names_gets_the_present_ones_with_one_warning(warned):
    names = {"lang": ["de", "en"]}
    former = {
        "tasks": "an option of something else",
        "model_conf": {"tasks": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"tasks": names, "default_task": {"lang": "de"}}}},
        "decoder_conf": {"adapter": {"tasks": names}, "start_tag": {"by": "lang", "tasks": names}, "tasks": 3},
        "optim_conf": None,
    }
    assert with_present_names(former, "exp/config.yaml") == {
        "tasks": "an option of something else",
        "model_conf": {"conditions": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"conditions": names, "default_condition": {"lang": "de"}}}},
        "decoder_conf": {
            "adapter": {"conditions": names},
            "start_tag": {"by": "lang", "conditions": names},
            "tasks": 3,
        },
        "optim_conf": None,
    }
    assert len(warned.messages) == 1 and warned.messages[0].startswith(
        "exp/config.yaml: former names of options are still read"
    )
    assert "model_conf.tasks -> conditions, encoder_conf.attention.selection.tasks -> conditions" in warned.messages[0]


def test_a_configuration_with_present_names_stays_as_it_is(warned):
    config = {"model_conf": {"conditions": {"lang": ["de"]}}, "encoder": "diverse_transformer"}
    assert with_present_names(config, "config.yaml") == config
    assert warned.messages == []


def test_paths_of_keys_get_the_present_names():
    assert present_keys(("model_conf", "tasks", "lang")) == ("model_conf", "conditions", "lang")
    assert present_keys(("tasks", "selection")) == ("tasks", "selection")
