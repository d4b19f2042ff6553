"""YAML texts: numbers, the line of every key, and faults; `test_config.py` has the faults of whole files."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.training.yaml_lines import kind, parse


def test_the_line_of_every_key_is_returned():
    value, lines = parse("a: 1e-3\nb:\n  c: [{d: x}]\n", "a.yaml")
    assert value == {"a": 1e-3, "b": {"c": [{"d": "x"}]}}
    assert lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", "[]", "d"): 3}
    assert parse("", "a.yaml") == (None, {})


def test_a_fault_is_one_line_with_the_line_of_the_text():
    with pytest.raises(ConfigError, match=r"^a\.yaml:2: not valid YAML: [^\n]+$"):
        parse("a: 1\n\tb: 2\n", "a.yaml")


def test_content_that_is_not_a_mapping_is_described():
    assert [kind(content) for content in (None, [1], "x")] == ["empty", "a list", "a str"]


def test_deep_nesting_and_impossible_dates_are_one_line():
    with pytest.raises(ConfigError, match=r"^a\.yaml: not valid YAML: nested too deeply$"):
        parse("[" * 100_000, "a.yaml")
    with pytest.raises(ConfigError, match=r"^a\.yaml: not valid YAML: month must be in 1..12$"):
        parse("a: 2020-99-99", "a.yaml")


@pytest.mark.parametrize("value", ["!!bool x", "!!int ''", "!!timestamp x"])
def test_a_value_that_does_not_fit_its_tag_is_one_line(value):
    with pytest.raises(ConfigError, match=r"^a\.yaml: not valid YAML: a value does not fit its tag$"):
        parse(f"a: {value}", "a.yaml")


@pytest.mark.parametrize(("text", "code"), [("a: 1\nb: x\x1b", "001B"), ("a: 1\n\0", "0000"), ("\n\ud800", "D800")])
def test_a_character_that_yaml_does_not_allow_is_named_with_its_line(text, code):
    with pytest.raises(ConfigError, match=rf"^a\.yaml:2: not valid YAML: the character U\+{code} is not allowed"):
        parse(text, "a.yaml")


def test_keys_that_are_merged_have_the_line_where_they_are_written():
    value, lines = parse("x: &x\n  a: 1\n  b: 2\ny:\n  b: 3\n  <<: *x\nz:\n  <<: [{c: 1}, *x]\n", "a.yaml")
    assert value["y"] == {"a": 1, "b": 3} and value["z"] == {"c": 1, "a": 1, "b": 2}
    assert [lines["y", key] for key in "ab"] == [2, 5] and [lines["z", key] for key in "cab"] == [8, 2, 3]
