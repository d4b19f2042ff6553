import copy
import re
from pathlib import Path

import pytest

from espnet_diverse.data.faults import ACTIONS, CHOICES, Fault, alike_once, decisive, parse_actions, refuse
from espnet_diverse.errors import ConfigError, DataError


def test_faults_are_named_and_counted():
    refuse([])
    with pytest.raises(DataError, match="^text:3: bad$"):
        refuse([Fault("text", 3, "bad")])
    faults = [Fault("text", f"utt{number}", "bad") for number in range(5)]
    with pytest.raises(DataError) as caught:
        refuse(faults)
    named = "text: utt0: bad; also utt1; also utt2"
    assert str(caught.value) == f"5 faults: {named}; and 2 more"
    assert caught.value.faults == faults
    again = copy.copy(caught.value)  # by the same method as pickle
    assert (str(again), again.faults) == (str(caught.value), faults)
    with pytest.raises(DataError, match="; and 2 more .X lists all.$"):
        refuse(faults, "X lists all")
    with pytest.raises(DataError, match="^3 faults: [^(]*$"):
        refuse(faults[:3], "X lists all")


def test_the_same_fault_at_other_places_is_described_once():
    same = [Fault("wav.scp", name, f"/data/{name}.wav: has 16000 Hz; convert it") for name in "abcd"]
    with pytest.raises(DataError) as caught:
        refuse(same)
    assert (
        str(caught.value) == "4 faults: wav.scp: a: /data/a.wav: has 16000 Hz; convert it; also b; also c; and 1 more"
    )
    other = [same[0], Fault("wav.scp", "b", "/data/b.wav: has 8000 Hz; convert it"), Fault("text", "a", same[0].what)]
    with pytest.raises(DataError) as caught:
        refuse(other)
    assert str(caught.value) == f"3 faults: {'; '.join(map(str, other))}"


def test_actions_can_be_changed_by_kind():
    assert parse_actions([]) == ACTIONS and set(ACTIONS.values()) <= set(CHOICES)
    assert parse_actions(["silent=warn", "audio=drop"]) == ACTIONS | {"silent": "warn", "audio": "drop"}
    for word in ("silent", "silent=keep", "quiet=warn", "=warn", ""):
        with pytest.raises(ConfigError, match=f"^{word!r}: must be KIND=ACTION; kinds are table .*; actions are"):
            parse_actions([word])


def test_warnings_are_one_line_for_a_file_and_kind(caplog):
    some = [Fault("text", f"u{i}", "odd", "entity") for i in range(3)] + [Fault("text", 1, "bad")]
    assert decisive(some) == some[3:]
    assert caplog.messages == ["notice: text: u0: odd (and 2 more of this kind, entity)"]
    assert decisive(some, ACTIONS | {"entity": "drop"}) == some


def test_the_documentation_has_every_kind_with_its_action():
    page = (Path(__file__).parents[2] / "docs" / "trust.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (\w+) \|", page, flags=re.MULTILINE)
    assert {kind: action for kinds, action in rows for kind in re.findall(r"\w+", kinds)} == ACTIONS


def test_faults_that_are_alike_are_told_once_with_their_number():
    pipes = [f"data/wav.scp:{line}: 'flac -c {line}.flac |' contains a pipe; write files" for line in range(1, 60)]
    others = ["warning: data/text: u1: has no words", "data/wav.scp: a1: a1.wav: no such audio file"]
    assert alike_once([*pipes[:2], *others, *pipes[2:]], 3, "--json FILE lists all") == [
        *(*pipes[:2], *others, pipes[2]),
        "and 56 more like the last; --json FILE lists all",
    ]
    missing = [f"data/wav.scp: {name}: {name}.wav: no such audio file" for name in "abcd"]
    assert alike_once(missing, 2) == [*missing[:2], "and 2 more like the last"]
    assert alike_once(missing, 4) == missing
