"""The columns of a table: by their names, other names and options; the page of the documentation has the same."""

import re
from pathlib import Path

import pytest
from references.markdown import ROOT

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.columns import COLUMNS, find_columns
from espnet_diverse.corpora.shared.table_files import Table
from espnet_diverse.errors import ConfigError


def find(names, columns=(), task="asr"):
    found, faults = find_columns(Table(Path("t.csv"), names), Selection(task=task, columns=columns))
    return found, list(map(str, faults))


def test_own_names_come_first_and_case_does_not_matter():
    assert find(["Audio", "TEXT", "Lang"]) == ({"audio": "Audio", "text": "TEXT", "language": "Lang"}, [])
    assert find(["path", "audio", "sentence", "text"])[0] == {"audio": "audio", "text": "text"}
    assert find(["client_id", "path", "sentence", "locale"])[0] == {
        "audio": "path",
        "text": "sentence",
        "speaker": "client_id",
        "language": "locale",
    }


def test_an_option_names_a_column_and_takes_it_from_others():
    assert find(["file", "text", "words"], (("text", "words"),))[0] == {"audio": "file", "text": "words"}
    assert find(["audio", "path", "text"], (("text", "audio"),))[0] == {"audio": "path", "text": "audio"}


def test_unread_columns_are_listed(caplog):
    find(["audio", "text", "up_votes", "speeker", ""])
    assert caplog.messages == ["notice: t.csv: columns that are not read: up_votes, speeker"]


def test_a_duration_is_read_beside_a_start_alone(caplog):
    """A manifest of NeMo has parts; where there is no start, a duration describes the file."""
    names = ["audio_filepath", "text", "offset", "duration"]
    assert find(names)[0] == {"audio": names[0], "text": "text", "start": "offset", "duration": "duration"}
    assert not caplog.messages
    assert find(["audio", "text", "duration"])[0] == {"audio": "audio", "text": "text"}
    assert find(["audio", "text", "start", "end", "duration"])[0].keys() == {"audio", "text", "start", "end"}
    assert caplog.messages == ["notice: t.csv: columns that are not read: duration"] * 2
    named = find(["audio", "text", "long"], (("duration", "long"),))[0]
    assert named == {"audio": "audio", "text": "text", "duration": "long"}


def test_faults_name_all_columns():
    has = "it has wav, text"
    assert find(["wav", "text"])[1] == [f"t.csv: has no column 'audio'; {has}; name one with --columns audio=NAME"]
    one = find(["audio text"])[1][0]
    assert "it has audio text alone: a tab separates columns in tsv, a comma or semicolon in csv; name one" in one
    assert find(["wav", "text"], (("audio", "wave"),))[1] == [f"t.csv: has no column 'wave'; {has}"]
    assert find(["path", "file", "text"])[1] == [
        "t.csv: path and file could be audio; choose with --columns audio=path"
    ]
    assert len(find(["a"], task="st")[1]) == 3  # audio, text, translation
    with pytest.raises(ConfigError, match="^column words=text: there is no 'words'; known: audio text id speaker "):
        find(["audio", "text"], (("words", "text"),))


def test_a_first_line_that_has_values_is_told():
    assert "('clips/a.mp3' is no name: is the first line" in find(["clips/a.mp3", "hello there"])[1][0]
    assert "('I am here now' is no name: is the first line" in find(["one", "I am here now"])[1][0]
    assert "is no name" not in find(["up votes", "words"])[1][0]


def test_no_name_stands_for_two_columns():
    names = [*COLUMNS, *(name for others in COLUMNS.values() for name in others)]
    assert len(names) == len(set(names)) and names == [name.lower() for name in names]


def test_the_documentation_has_the_names():
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8").split("## A Kaldi directory")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+? \|([^|]*)\|$", page, flags=re.MULTILINE)
    assert {column: tuple(re.findall(r"`(\w+)`", others)) for column, others in rows} == COLUMNS
