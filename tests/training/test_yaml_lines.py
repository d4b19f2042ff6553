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
