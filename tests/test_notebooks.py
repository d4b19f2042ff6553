"""The notebooks of examples/: their cells run in order in a new process, and their outputs are cleared."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from references.markdown import ROOT
from references.whisper import write_whisper

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SHELL = """\
import subprocess

def shell(line):
    subprocess.run(line, shell=True, check=True)

"""
"""What the cells of a notebook need in place of IPython, whose lines with ! run in a shell."""


def cells(path, kind="code"):
    book = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


def program(path):
    """The code cells of a notebook as one script, for `python -c`: its workers do not import it, as in Jupyter."""
    joined = "\n\n".join(cells(path))
    return SHELL + re.sub(r"^!(.*)$", lambda line: f"shell(f{line[1]!r})", joined, flags=re.MULTILINE)


def run_notebook(path, folder, **changes):
    """Run a notebook in a folder, with the values of some of its variables replaced; return what it printed."""
    script = program(path)
    for name, value in changes.items():
        script, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", script, flags=re.MULTILINE)
        assert count == 1, name
    path_of_programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path_of_programs, "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_are_cleared(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    kept = [cell["id"] for cell in book["cells"] if cell.get("outputs") or cell.get("execution_count")]
    assert not kept and len({cell["id"] for cell in book["cells"]}) == len(book["cells"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_pages_that_a_notebook_names_exist(path):
    for target in re.findall(r"\]\(([^)]+)\)", " ".join("\n".join(cells(path, "markdown")).split())):
        assert (path.parent / target).is_file(), target


@pytest.mark.recipes
def test_choose_an_attention(tmp_path):
    said = run_notebook(ROOT / "examples" / "choose_attention.ipynb", tmp_path)
    assert re.search(r"^softmax +\S", said, re.MULTILINE) and "window " in said and "1600: " in said


@pytest.mark.recipes
def test_adopt_and_read_heads(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    write_whisper(tmp_path / "whisper")
    path = ROOT / "examples" / "whisper_heads.ipynb"
    said = run_notebook(path, tmp_path, MODEL="whisper", LONGEST=-6.0)  # random weights do not find the end
    assert "largest difference of the outputs: 0" in said and "encoder self-attention" in said


@pytest.mark.recipes
def test_a_contest(tmp_path):
    said = run_notebook(ROOT / "examples" / "contest.ipynb", tmp_path)
    assert "2 methods, 2 seeds, accuracy on test: " in said and (tmp_path / "exp" / "contest.html").is_file()


def test_every_notebook_is_run_here():
    assert [path.stem for path in NOTEBOOKS] == ["choose_attention", "contest", "whisper_heads"]
