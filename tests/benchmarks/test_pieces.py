"""cpu.sh and gpu.sh: their pieces can be run, a piece is done once, and one that fails does not stop the others."""

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
STAND_IN = """#!{python}
import json, os, sys, time
script, arguments = sys.argv[1].rpartition("/")[2], sys.argv[2:]
with open("calls", "a") as file:
    print(script, *arguments, file=file)
with open("pid", "w") as file:
    print(os.getpid(), file=file)
print("a table")
print("a word\\non the way", file=sys.stderr)
if script in os.environ.get("BROKEN", ""):
    sys.exit(script + " breaks")
if script == "reproduce.py":
    given = dict(zip(arguments[1::2], arguments[2::2]))
    done = os.path.exists(given["--results"])
    open(given["--results"], "a").close()
    sys.exit(0 if done else 75)
time.sleep(float(os.environ.get("SECONDS", 0)) if script == "length.py" else 0)
if "--output" in arguments:
    open(arguments[arguments.index("--output") + 1], "w").close()
"""


def call(*words, **environment):
    command = ["bash", *map(str, words)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(script, options...) runs a script with a stand-in for Python, which only notes what it was to do."""
    python = tmp_path / "python"
    python.write_text(STAND_IN.replace("{python}", sys.executable))
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    def start(script, *options, **environment):
        words = FOLDER / script, "--output_dir", tmp_path / "out put", *options
        return call(*words, PYTHON=str(python), **environment)

    return start


def calls():
    """First words of what the stand-in was called with, since the last call of this function."""
    noted = Path("calls")
    lines = noted.read_text().splitlines() if noted.is_file() else []
    noted.unlink(missing_ok=True)
    return [line.split()[0] for line in lines]


def commands(script, *options):
    """Name of each benchmark of a script, its module and its options."""
    listed = call(FOLDER / script, "--list", *options)
    assert (listed.returncode, listed.stderr) == (0, "")
    for line in listed.stdout.splitlines():
        name, _, command = line.partition(": ")
        _, path, *words = shlex.split(command)
        yield name, Path(path), words


def module_of(path, monkeypatch):
    """The module of a benchmark; the name of streaming.py and others may be that of a module of tests."""
    monkeypatch.syspath_prepend(path.parent)
    return importlib.import_module(path.stem)


@pytest.mark.parametrize("options", [("gpu.sh",), ("gpu.sh", "--tiny"), ("cpu.sh",), ("cpu.sh", "--tiny")])
def test_benchmarks_accept_the_options_of_their_pieces(options, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    names = []
    for name, path, words in commands(*options):
        module = module_of(path, monkeypatch)
        args = getattr(module, "arguments", None) or module._arguments
        assert args(words).output == Path(f"DIR/{name}.json"), name
        assert options[0] == "cpu.sh" or args(words).device == "cuda"
        names.append(name)
    if options[0] == "cpu.sh":
        assert names[:4] == ["modules", "steps", "decoding", "decoding_mt"] and len(names) == 11
    else:
        assert {"modules", "decoding", "translation", "length"} < set(names)


@pytest.mark.parametrize("name", ["modules", "steps_16", "decoding", "translation", "length"])
def test_each_piece_of_the_gpu_runs_on_a_cpu_at_a_tiny_size(name, tmp_path, monkeypatch, capsys):
    ((_, path, words),) = (
        piece for piece in commands("gpu.sh", "--tiny", "--device", "cpu", "--output_dir", tmp_path) if piece[0] == name
    )
    module_of(path, monkeypatch).main(words)
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    assert "|---|" in capsys.readouterr().out


@pytest.mark.trust
@pytest.mark.parametrize("words", [("gpu.sh", "--device", "cpu"), ("cpu.sh",)])
def test_all_pieces_run_as_programs(words, tmp_path):
    done = call(FOLDER / words[0], "--tiny", "--output_dir", tmp_path, *words[1:], PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [name for name, *_ in commands(words[0], "--tiny")]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(
        f"{name}.{kind}" for name in names for kind in ("json", "md")
    )


def test_a_piece_is_done_once_and_what_fails_is_done_by_the_next_call(run, tmp_path):
    out = tmp_path / "out put"
    done = run("gpu.sh", "--tiny", BROKEN="decoding.py")
    assert done.returncode == 1
    assert calls() == ["attention.py", "attention.py", "decoding.py", "translation.py", "length.py"]
    assert "decoding: failed, see " in done.stderr and done.stderr.splitlines()[0].endswith(": decoding.py breaks")
    assert done.stderr.splitlines()[-1] == "not done: decoding; the same command goes on with them"
    assert re.fullmatch(r"length: \dm\ds, \dm\ds of CPU", done.stdout.splitlines()[-1])
    assert (out / "decoding.log").read_text().splitlines() == ["a word", "on the way", "decoding.py breaks"]
    assert not (out / "decoding.json").exists() and not (out / "decoding.md").exists()
    assert (out / "length.md").read_text() == "a table\n" and not (out / "length.log").exists()

    done = run("gpu.sh", "--tiny")
    assert (done.returncode, done.stderr, calls()) == (0, "", ["decoding.py"])
    assert "modules: done before; remove " in done.stdout
    assert run("gpu.sh", "--tiny").returncode == 0 and calls() == []


def test_only_the_named_pieces_are_run(run):
    assert run("gpu.sh", "--tiny", "length", "modules").returncode == 0
    assert calls() == ["attention.py", "length.py"]
    unknown = run("cpu.sh", "steps", "step")
    assert unknown.returncode == 2 and "there is no piece step; the pieces are: modules steps " in unknown.stderr


def test_earlier_results_are_compared(run, tmp_path):
    (tmp_path / "then").mkdir()
    (tmp_path / "then" / "length.json").touch()
    assert run("cpu.sh", "--tiny", "--compare", tmp_path / "then", "length", "steps").returncode == 0
    steps, length = (tmp_path / "calls").read_text().splitlines()
    assert "--compare" not in steps and length.endswith(f" --compare {tmp_path}/then/length.json")


def test_a_piece_has_a_limit(tmp_path, run):
    script = (FOLDER / "gpu.sh").read_text().replace('"$(dirname "$0")/pieces.sh"', "pieces.sh")
    (tmp_path / "gpu.sh").write_text(script)
    pieces = (FOLDER / "pieces.sh").read_text()
    assert pieces.count('"${minutes}m"') == 1
    (tmp_path / "pieces.sh").write_text(pieces.replace('"${minutes}m"', '"0.${minutes}"'))  # seconds
    done = run(tmp_path / "gpu.sh", "--tiny", "--minutes", "9", "length", SECONDS="30")
    assert done.returncode == 1 and "length: stopped after 9 minutes, see " in done.stderr


def test_an_interrupt_ends_the_piece_and_the_script(tmp_path, run):
    words = ["bash", FOLDER / "gpu.sh", "--output_dir", tmp_path, "--tiny", "length"]
    settings = os.environ | {"PYTHON": str(tmp_path / "python"), "SECONDS": "60"}
    process = subprocess.Popen(words, env=settings, start_new_session=True)
    while not Path("pid").is_file() or "length.py" not in Path("calls").read_text() or not Path("pid").read_text():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(20) == 130
    ended = time.monotonic() + 20  # on a busy machine it takes a while
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < ended:
            os.kill(int(Path("pid").read_text()), 0)
            time.sleep(0.05)
    assert not (tmp_path / "length.json").exists()


def test_base_runs_go_on_until_all_are_done(run, tmp_path):
    assert run("gpu.sh", "--tiny", "base").returncode == 2  # no corpus
    for status, said in ((1, "base: not finished, the next call goes on"), (0, "base: done in ")):
        done = run("gpu.sh", "--tiny", "--tatoeba", "my corpora", "base")
        assert done.returncode == status and said in done.stdout
    for line in (tmp_path / "calls").read_text().splitlines():
        assert line.startswith("reproduce.py run --only tatoeba_base/* --corpus tatoeba=my corpora --recipe_options")
        assert " --ngpu 1 --minutes 9 --results " in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output_dir"], "--output_dir needs a value"),
        (["--device", "cuda"], "cpu.sh has no option --device; --help shows all"),
        (["--minutes", "0"], "--minutes 0 is not a whole number above 0"),
        ([], "give --output_dir, the folder of the results"),
        (["--output_dir", "x", "--compare", "none"], "--compare none: no such folder"),
    ],
)
def test_what_cannot_be_run_is_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = call(FOLDER / "cpu.sh", *options, PYTHON=sys.executable)
    assert (refused.returncode, refused.stderr) == (2, f"error: {message}\n")


def test_help_says_what_the_pieces_are():
    for script in ("cpu.sh", "gpu.sh"):
        shown = call(FOLDER / script, "--help").stdout
        assert "--output_dir DIR" in shown and "translation" in shown and not shown.startswith("#")
