"""Completion in the shell, asked as argcomplete asks: in the environment of the program."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from espnet_diverse.bin.main import COMMANDS, main


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("espnet-diverse tr", {"train", "transcribe", "translate"}),
        ("espnet-diverse decode --beam", {"--beam_size"}),
        ("espnet-diverse decode --de", {"--device", "--debug"}),
        ("espnet-diverse decode --search ", {"batched", "greedy", "sampling", "espnet"}),
    ],
)
def test_commands_and_options_are_completed(line, some, tmp_path):
    pytest.importorskip("argcomplete")
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    environment = os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    subprocess.run([sys.executable, "-m", "espnet_diverse"], env=environment, check=True)
    assert {word.strip() for word in answer.read_text().splitlines()} == some


def test_options_are_declared_only_of_the_command_in_the_line(monkeypatch):
    given = []
    monkeypatch.setitem(sys.modules, "argcomplete", SimpleNamespace(autocomplete=given.append))
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("COMP_LINE", "espnet-diverse score --me")
    with pytest.raises(SystemExit):
        main(["--version"])
    described = given[0]._subparsers._group_actions[0]._choices_actions
    assert "average the best checkpoints of a training run" in {action.help for action in described}
    commands = given[0]._subparsers._group_actions[0].choices
    assert list(commands) == list(COMMANDS)
    assert "--metric" in commands["score"]._option_string_actions
    assert list(commands["decode"]._option_string_actions) == ["-h", "--help"]


def test_without_argcomplete_the_shell_is_told_nothing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 1 and capsys.readouterr() == ("", "")
