"""YAML: small flat documents, input that is refused before a value is made of it, and the lines of keys."""

import math
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.untrusted import foreign_yaml
from espnet_diverse.untrusted.foreign_yaml import OwnDumper, kind, parse_own, read_list, read_yaml, shortened

BOMB = "a: &a [x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghi"))
"""10^8 values in 400 characters."""


def test_a_mapping_is_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: &x [1, x]\nb: {c: &y 2}\nd: *x\ne: *y\n")
    assert read_yaml(path, "a") == {"a": [1, "x"], "b": {"c": 2}, "d": [1, "x"], "e": 2}
    path.write_text(f"token_list: [{', '.join(f'tok{i}' for i in range(60_000))}]")
    assert len(read_yaml(path, "a")["token_list"]) == 60_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"- 1", "contains a list, not a mapping; get it again"),
        (b"", "contains nothing, not a mapping; get it again"),
        (b"a: [1", r"is not valid YAML \(.* in line 2\); get it again"),
        (b"a: \xff", r"is not valid YAML \(not UTF-8 at byte 3\)"),
        (b"a: \x00", "is not valid YAML"),
        (b"a: 2020-99-99", "is not valid YAML .*month must be in 1..12"),
        (b"lol: &a [{}]\nb: {<<: *a}\n", "is not valid YAML .*merge keys are not allowed"),
        (b"a: {b: 1,\n c: 2, b: 3}", r"is not valid YAML \(key b occurs twice in line 2\); get it again"),
        (b"? [a]\n: 1", r"is not valid YAML \(found unhashable key"),
        (b"[" * 50, r"is not valid YAML \(nested deeper than 20 levels\)"),
        # The parser itself ends at 1,000 levels, as of PyYAML 6.0.4; the overflow of a stack is a crash before that.
        (
            b"[" * 50_000,
            r"is not valid YAML \((nested deeper than 20 levels|exceeded maximum nesting depth)",
        ),
        (b"a: !!python/object/apply:os.getcwd []", "is not valid YAML .*could not determine a constructor"),
        (b" " * (1 << 20) + b"a: 1", "has more than 1048576 bytes; check where the file is from"),
        (BOMB.encode(), r"is not valid YAML \(more than 200000 values, with what aliases repeat\)"),
        (b"a: &a [*a]", r"is not valid YAML \(an alias without a value before it\)"),
        (b"a: *b", "is not valid YAML"),
        (b"a: [" + b"0," * 300_000 + b"]", r"is not valid YAML \(more than 200000 values"),
        (b"a: 1" + b":1" * 400_000, r"is not valid YAML \(a number of 800001 digits; 100 are allowed\)"),
        (b"a: " + b"1" * 900_000, r"is not valid YAML \(a number of 900000 digits"),
        (b"a: !!int 1" + b":1" * 400_000, r"is not valid YAML \(a number of 800001 digits; 100 are allowed\)"),
        (
            b"a: !!float '1" + b": 1" * 300_000 + b"'",
            r"is not valid YAML \(a number of 900001 digits; 100 are allowed\)",
        ),
        (b"? {a: b}\n: 1", r"is not valid YAML \(found unhashable key"),
        (b"%YAML 9.9\n---\na: 1", "is not valid YAML"),
        (b"--- a\n--- b", "is not valid YAML"),
        (b"a: !!binary x", "is not valid YAML"),
        (b"a: !!bool x", r"is not valid YAML \(a value does not fit its tag\)"),
        (b"a: !!int ''", r"is not valid YAML \(a value does not fit its tag\)"),
        (b"a: !!timestamp x", r"is not valid YAML \(a value does not fit its tag\)"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_unsafe_and_malformed_yaml_is_refused_quickly_in_one_line(tmp_path, content, said):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(ModelError, match=f"^shown.yaml {said}") as error:
        read_yaml(path, "shown.yaml", "get it again")
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    assert time.monotonic() - start < 5


def test_a_text_is_parsed_once_and_each_reader_has_values_of_its_own(tmp_path, monkeypatch):
    path, parsed = tmp_path / "config.yaml", []
    load = foreign_yaml._load
    monkeypatch.setattr(foreign_yaml, "_load", lambda *args, **named: parsed.append(1) or load(*args, **named))
    path.write_text("once: 1\nconf: {size: [1, 2]}\n", encoding="utf-8")
    first = read_yaml(path, "config.yaml")
    first["conf"]["size"].append(3)
    assert read_yaml(path, "config.yaml") == {"once": 1, "conf": {"size": [1, 2]}} and len(parsed) == 1
    path.write_text("once: 2\nconf: {size: [1, 2]}\n", encoding="utf-8")
    assert read_yaml(path, "config.yaml")["once"] == 2


def test_missing_and_irregular_files_are_named(tmp_path):
    with pytest.raises(ModelError, match="^x cannot be read .No such file"):
        read_yaml(tmp_path / "gone", "x")
    with pytest.raises(ModelError, match="^x cannot be read .Is a directory"):
        read_yaml(tmp_path, "x")
    for special in ("/dev/zero", tmp_path / "pipe"):
        path = tmp_path / "link"
        path.unlink(missing_ok=True)
        if special != "/dev/zero":
            os.mkfifo(special)
        path.symlink_to(special)
        with pytest.raises(ModelError, match="^x cannot be read .not a regular file"):
            read_yaml(path, "x")


def test_values_in_messages_are_short():
    assert shortened("a\nb") == r"'a\nb'" and "\x1b" not in shortened(Path("\x1b[2J"))
    assert shortened("short") == "short" and shortened([1, "a"]) == "[1, 'a']"
    assert len(shortened("x" * 10**6)) == len(shortened(["x"] * 10**5)) == 200


def test_the_list_of_a_corpus_has_limits_of_its_own(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("- {wav: a.wav, offset: 1.5}\n" * 50_000)
    assert len(read_list(path, "its content")) == 50_000
    path.write_text(BOMB)
    with pytest.raises(DataError, match=r"^its content is not valid YAML \(more than 5000000 values"):
        read_list(path, "its content")
    with path.open("w") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(DataError, match=r"^its content: cannot be read \(has more than 67108864 bytes\)$"):
        read_list(path, "its content")


def test_user_written_yaml_has_the_limits_of_foreign_files():
    with pytest.raises(ConfigError, match="^a.yaml: not valid YAML: more than 200000 values"):
        parse_own(BOMB, "a.yaml")
    with pytest.raises(ConfigError, match="^a.yaml: has 5000000 characters; 4194304 are allowed"):
        parse_own("a" * 5_000_000, "a.yaml")


def test_the_line_of_every_key_is_returned():
    value, lines = parse_own("a: 1e-3\nb:\n  c: [{d: x}]\n", "a.yaml")
    assert value == {"a": 1e-3, "b": {"c": [{"d": "x"}]}}
    assert lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", "[]", "d"): 3}
    assert parse_own("", "a.yaml") == (None, {})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[("010", 10), ("-0020", -20), ("09", 9), ("1_000_000", 1_000_000), ("0x1F", 31), ("0b11", 3)],
        *[("2e4", 2e4), ("5E-4", 5e-4), (".5", 0.5), ("1_0.5", 10.5), ("-.inf", -math.inf)],
        *[("12:30", "12:30"), ("1:30.5", "1:30.5"), ("2024-02-30", "2024-02-30"), ("=", "="), ("0o7", "0o7")],
        *[("yes", True), ("off", False), ("~", None), ("'010'", "010"), ('"1e3"', "1e3")],
    ],
)
def test_numbers_of_a_user_are_those_that_are_meant(written, meant):
    assert repr(parse_own(f"a: {written}", "a.yaml")[0]["a"]) == repr(meant)


@pytest.mark.parametrize("text", ["010", "08", "1e3", "12:30", "2024-02-03", "no", "null", "0x10", "=", ".5", "1_0"])
def test_text_that_looks_like_a_number_is_written_in_quotes(text):
    written = yaml.dump({"a": [text]}, Dumper=OwnDumper)
    assert parse_own(written, "a.yaml")[0] == yaml.safe_load(written) == {"a": [text]}


def test_a_fault_is_one_line_with_the_line_of_the_text():
    with pytest.raises(ConfigError, match=r"^a\.yaml:2: not valid YAML: [^\n]+; replace the tab by spaces$"):
        parse_own("a: 1\n\tb: 2\n", "a.yaml")


def test_content_that_is_not_a_mapping_is_described():
    assert [kind(content) for content in (None, [1], "x")] == ["empty", "a list", "a str"]


def test_deep_nesting_is_one_line():
    with pytest.raises(ConfigError, match=r"^a\.yaml: not valid YAML: nested deeper than 20 levels$"):
        parse_own("[" * 50, "a.yaml")


@pytest.mark.parametrize("value", ["!!bool x", "!!int ''", "!!timestamp x"])
def test_a_value_that_does_not_fit_its_tag_is_one_line(value):
    with pytest.raises(ConfigError, match=r"^a\.yaml: not valid YAML: a value does not fit its tag$"):
        parse_own(f"a: {value}", "a.yaml")


@pytest.mark.parametrize(("text", "code"), [("a: 1\nb: x\x1b", "001B"), ("a: 1\n\0", "0000"), ("\n\ud800", "D800")])
def test_a_character_that_yaml_does_not_allow_is_named_with_its_line(text, code):
    with pytest.raises(ConfigError, match=rf"^a\.yaml:2: not valid YAML: the character U\+{code} is not allowed"):
        parse_own(text, "a.yaml")


def test_keys_that_are_merged_have_the_line_where_they_are_written():
    value, lines = parse_own("x: &x\n  a: 1\n  b: 2\ny:\n  b: 3\n  <<: *x\nz:\n  <<: [{c: 1}, *x]\n", "a.yaml")
    assert value["y"] == {"a": 1, "b": 3} and value["z"] == {"c": 1, "a": 1, "b": 2}
    assert [lines["y", key] for key in "ab"] == [2, 5] and [lines["z", key] for key in "cab"] == [8, 2, 3]
