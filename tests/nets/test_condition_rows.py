"""Rows of a table of parameters by the conditions of the open scope."""

from dataclasses import dataclass

import pytest
import torch

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.adapters.bottleneck import AdapterOptions
from espnet_diverse.nets.adapters.low_rank import LowRankOptions
from espnet_diverse.nets.condition_rows import ConditionRows, read_options
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

CONDITIONS = ["lang", "tgtlang"]
NAMES = {"lang": ["ar", "de", "el"], "tgtlang": ["en", "fr"]}
TRAINED = [["ar", "en"], ["el", "fr"]]


def conditions(**ids):
    return scope(conditions={condition: torch.tensor(values) for condition, values in ids.items()})


def test_one_condition_has_a_row_for_each_value():
    rows = ConditionRows("adapter", "lang", NAMES)
    assert len(rows) == 3 and rows.state_dict() == {}
    with conditions(lang=[2, 0, 2]):
        assert rows(3).tolist() == [2, 0, 2]
    with conditions(lang=[1]):
        assert rows(3).tolist() == rows(1).tolist() == [1]


def test_several_conditions_have_a_row_for_each_combination():
    rows = ConditionRows("adapter", CONDITIONS, NAMES)
    assert rows.labels == [("ar", "en"), ("ar", "fr"), ("de", "en"), ("de", "fr"), ("el", "en"), ("el", "fr")]
    with conditions(lang=[2, 0], tgtlang=[0, 1]):
        assert rows(2).tolist() == [4, 1]
    with conditions(lang=[1], tgtlang=[0, 1]):
        assert rows(2).tolist() == [2, 3]


def test_listed_combinations_have_the_rows_in_their_order():
    rows = ConditionRows("adapter", CONDITIONS, NAMES, TRAINED)
    with conditions(lang=[2, 0], tgtlang=[1, 0]):
        assert rows(2).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ({}, "adapter: the lang of each sample is needed and was not given (given: none); known: ar en, el fr"),
        (
            {"lang": [0, 0, 0], "tgtlang": [0]},
            "adapter: the lang of 3 samples was given for a batch of 2; known: ar en",
        ),
        ({"lang": [3], "tgtlang": [0]}, "adapter: condition index out of range; known: ar en, el fr"),
        ({"lang": [-1], "tgtlang": [0]}, "adapter: condition index out of range"),
        ({"lang": [0, 0], "tgtlang": [0, 1]}, "adapter: there is none for ar fr; known: ar en, el fr"),
        ({"lang": [1], "tgtlang": [0, 1]}, "adapter: there is none for de en; known: ar en, el fr"),
    ],
)
def test_unknown_and_missing_conditions_are_named(ids, text):
    with conditions(**ids), pytest.raises(DataError) as error:
        ConditionRows("adapter", CONDITIONS, NAMES, TRAINED)(2)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("by", "names", "combinations", "text"),
    [
        ("language", NAMES, None, "adapter: by must be one or a list of lang tgtlang domain, but is 'language'"),
        (
            "domain",
            NAMES,
            None,
            "adapter: conditions has no names for domain; training fills them in from utt2domain, or list",
        ),
        ("lang", None, None, "adapter: conditions has no names for lang"),
        ("lang", {"lang": ["ar", "ar"]}, None, "adapter: conditions of lang must be a list of different names"),
        ("lang", ["ar"], None, "adapter: conditions must be a mapping, such as {lang: [de, en]}, but is ['ar']"),
        (CONDITIONS, NAMES, [["ar"]], "adapter.combinations: ar: give one name for each of lang tgtlang"),
        (CONDITIONS, NAMES, [["ar", "it"]], "adapter.combinations: tgtlang 'it' is unknown; known: en fr"),
        (CONDITIONS, NAMES, [["ar", "en"]] * 2, "adapter: ar en is listed twice; list it once"),
    ],
)
def test_wrong_tables_are_named(by, names, combinations, text):
    with pytest.raises(ConfigError) as error:
        ConditionRows("adapter", by, names, combinations)
    assert text in str(error.value)


@dataclass
class _Options:
    by: str
    size: int = 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"by": "lang", "width": 3}, "unknown option 'width' of tag; known: by size"),
        ("lang", "tag must be a mapping of options, such as {by: ...}, but is 'lang'"),
        ({"size": 3}, "tag.by is missing; choose from: lang tgtlang domain"),
    ],
)
def test_wrong_options_are_named(given, text):
    with pytest.raises(ConfigError) as error:
        read_options(_Options, "tag", given)
    assert str(error.value) == text


def test_options_are_read():
    assert read_options(_Options, "tag", {"by": "lang"}) == _Options("lang", 3)


@pytest.mark.parametrize("given", [3, "ar", [], ["ar"], [3], [["ar", False]], {"ar": "en"}])
@pytest.mark.parametrize("kind", [AdapterOptions, LowRankOptions])
def test_combinations_are_lists_of_names(kind, given):
    with pytest.raises(OptionError, match=r"^combinations must be lists of names \(.*\), such as .*, but is "):
        kind(by=CONDITIONS, combinations=given)
    assert kind(by=CONDITIONS, combinations=TRAINED).combinations == TRAINED
