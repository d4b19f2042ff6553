"""Completion in the shell, asked as argcomplete asks: in the environment of the program."""

import os
import subprocess
import sys

import pytest


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


def test_without_argcomplete_the_shell_is_told_nothing(tmp_path):
    (tmp_path / "argcomplete.py").write_text("raise ImportError")
    environment = os.environ | {"_ARGCOMPLETE": "1", "COMP_LINE": "espnet-diverse ", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "import sys; from espnet_diverse.bin.main import main; main([])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
