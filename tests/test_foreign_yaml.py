"""YAML of other people: what is a small flat document, and what is refused before a value is made of it."""

import os
import time
from itertools import pairwise

import pytest

from espnet_diverse.errors import ModelError
from espnet_diverse.foreign_yaml import read_yaml, shortened

BOMB = "a: &a [x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghi"))
"""10^8 values in 400 characters."""


def test_a_mapping_is_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: &x [1, x]\nb: {c: null}\nd: *x\n")
    assert read_yaml(path, "a") == {"a": [1, "x"], "b": {"c": None}, "d": [1, "x"]}
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
        (b"[" * 50, r"is not valid YAML \(nested deeper than 20 levels\)"),
        # The parser itself ends at 1,000 levels, as of PyYAML 6.0.4; the overflow of a stack is a crash before that.
        (
            b"[" * 50_000,
            r"is not valid YAML \((nested deeper than 20 levels|exceeded maximum nesting depth)",
        ),
        (b"a: !!python/object/apply:os.getcwd []", "is not valid YAML .*could not determine a constructor"),
        (b" " * (1 << 20) + b"a: 1", "has 1048580 bytes; at most 1048576 are allowed; check where the file is from"),
        (BOMB.encode(), r"is not valid YAML \(more than 200000 values, with what aliases repeat\)"),
        (b"a: &a [*a]", r"is not valid YAML \(an alias without a value before it\)"),
        (b"a: *b", "is not valid YAML"),
        (b"a: [" + b"0," * 300_000 + b"]", r"is not valid YAML \(more than 200000 values"),
        (b"a: 1" + b":1" * 400_000, r"is not valid YAML \(a number of 800001 digits; 100 are allowed\)"),
        (b"a: " + b"1" * 900_000, r"is not valid YAML \(a number of 900000 digits"),
        (b"? [a, b]\n: 1", "is not valid YAML|contains"),
        (b"%YAML 9.9\n---\na: 1", "is not valid YAML"),
        (b"--- a\n--- b", "is not valid YAML"),
        (b"a: !!binary x", "is not valid YAML"),
        (b"a: !!bool x", r"is not valid YAML \(a value does not fit its tag\)"),
        (b"a: !!int ''", r"is not valid YAML \(a value does not fit its tag\)"),
        (b"a: !!timestamp x", r"is not valid YAML \(a value does not fit its tag\)"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_what_is_no_harmless_mapping_is_refused_in_one_short_line_at_once(tmp_path, content, said):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(ModelError, match=f"^shown.yaml {said}") as error:
        read_yaml(path, "shown.yaml", "get it again")
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    assert time.monotonic() - start < 5


def test_what_is_no_file_is_named(tmp_path):
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
    assert shortened("short") == "short" and shortened([1, "a"]) == "[1, 'a']"
    assert len(shortened("x" * 10**6)) == len(shortened(["x"] * 10**5)) == 200
