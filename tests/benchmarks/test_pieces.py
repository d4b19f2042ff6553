"""cpu.sh and gpu.sh: a piece is done once, and one that fails does not stop the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
STAND_IN = """#!{python}
import os, sys
script, arguments = sys.argv[1].rpartition("/")[2], sys.argv[2:]
with open("calls", "a") as file:
    print(script, file=file)
print("a table")
if script in os.environ.get("BROKEN", ""):
    sys.exit(script + " breaks")
open(arguments[arguments.index("--output") + 1], "w").close()
"""


def call(*words, **environment):
    command = ["bash", *map(str, words)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(options...) runs gpu.sh with a stand-in for Python; returns its result and the scripts that it called."""
    python = tmp_path / "python"
    python.write_text(STAND_IN.replace("{python}", sys.executable))
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    def start(*options, **environment):
        Path("calls").write_text("")
        words = FOLDER / "gpu.sh", "--output_dir", tmp_path / "out put", "--tiny", *options
        return call(*words, PYTHON=str(python), **environment), Path("calls").read_text().split()

    return start


def test_the_next_call_repeats_only_the_failed_pieces(run, tmp_path):
    done, called = run(BROKEN="decoding.py")
    assert done.returncode == 1
    assert called == ["values.py", "attention.py", "attention.py", "decoding.py", "translation.py", "length.py"]
    assert done.stderr.splitlines()[-1] == "not done: decoding; the same command continues with them"
    assert (tmp_path / "out put" / "decoding.log").read_text() == "decoding.py breaks\n"
    assert (tmp_path / "out put" / "length.md").read_text() == "a table\n"
    done, called = run()
    assert (done.returncode, done.stderr, called) == (0, "", ["decoding.py"])


def test_only_the_named_pieces_are_run(run):
    done, called = run("length", "modules")
    assert done.returncode == 0 and called == ["attention.py", "length.py"]
    assert "there is no piece step; the pieces are: check modules " in run("step")[0].stderr


def test_the_check_alone_needs_no_folder():
    done = call(FOLDER / "gpu.sh", "--check", PYTHON="/bin/echo")
    assert done.stdout == f"{FOLDER}/values.py --device cuda\n" and done.returncode == 0
    assert "cpu.sh has no option --check" in call(FOLDER / "cpu.sh", "--check").stderr


@pytest.mark.parametrize(
    ("options", "message"), [(["--minutes", "0"], "--minutes 0 is not"), ([], "give --output_dir")]
)
def test_invalid_minutes_or_a_missing_output_dir_is_refused(options, message):
    refused = call(FOLDER / "cpu.sh", *options, PYTHON=sys.executable)
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: {message}")


@pytest.mark.trust
@pytest.mark.parametrize("words", [("gpu.sh", "--device", "cpu"), ("cpu.sh",)])
def test_all_pieces_run_as_programs(words, tmp_path):
    done = call(FOLDER / words[0], "--tiny", "--output_dir", tmp_path, *words[1:], PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--output_dir DIR" in call(FOLDER / words[0], "--help").stdout
