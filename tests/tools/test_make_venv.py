"""`make` sets up an environment with an interpreter that is fit, names it, and makes an unfit environment again."""

import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(machine):
    """A folder with the Makefile and what it needs to set up an environment; python3.12 is on PATH."""
    machine.python("bin/python3.12", "3.12.1")
    machine.uv("index/uv")
    folder = machine.root / "clone"
    shutil.copytree(ROOT / "tools", folder / "tools")
    for name in ("Makefile", "setup.py", "constraints.txt", "hashes.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def make(machine, clone, *goals, **environment):
    """The lines of standard output of make."""
    done = machine.run("make", *(goals or [".venv/.ready"]), cwd=clone, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def earlier(machine, clone, version):
    """An environment that is there before; the file `mark` in it shows that it was not made again."""
    machine.run(machine.python("earlier/python", version), "-m", "venv", clone / ".venv")
    (clone / ".venv" / "mark").touch()
    return clone / ".venv"


def test_the_first_line_names_the_interpreter(machine, clone):
    lines = make(machine, clone)
    assert lines[0] == f"Python 3.12.1: {machine.bin}/python3.12" and lines[-1] == "touch .venv/.ready"
    assert make(machine, clone) == ["Python 3.12.1: .venv/bin/python"]


def test_changed_pins_install_again_in_the_same_environment(machine, clone):
    make(machine, clone)
    (clone / ".venv" / "mark").touch()
    after = (clone / ".venv" / ".ready").stat().st_mtime + 1
    os.utime(clone / "constraints.txt", (after, after))
    lines = make(machine, clone)
    assert lines[0] == "Python 3.12.1: .venv/bin/python" and any("uv pip install" in line for line in lines)
    assert (clone / ".venv" / "mark").exists()


def test_hashes_are_demanded_of_both_installers(machine, clone):
    lines = make(machine, clone, ".venv/.ready", "HASHES=1")
    assert not any("constraints.txt" in line for line in lines)
    first, second = (line for line in lines if "--require-hashes" in line)
    assert "pip install --quiet --no-deps" in first and first.endswith("uv.txt") and second.endswith("hashes.txt")
    own = (clone / ".venv" / "uv.txt").read_text()
    assert own.startswith("uv==") and own.count("==") == 1 and own in (clone / "hashes.txt").read_text()
    assert "--no-deps --no-build-isolation -e ." in lines[-2]


@pytest.mark.parametrize("version", ["3.11.7", ""])
def test_an_unfit_environment_is_made_again(machine, clone, version):
    """Of an older version, or with an interpreter that is gone; its stamp is newer than all that it depends on."""
    venv = earlier(machine, clone, version or "3.12.1")
    (venv / ".ready").touch()
    if not version:
        (venv / "bin" / "python").unlink()
        (venv / "bin" / "python").symlink_to("nowhere")
    first, second, *_, last = make(machine, clone)
    assert first == f"Python 3.12.1: {machine.bin}/python3.12" and last == "touch .venv/.ready"
    assert re.fullmatch(rf"\.venv is made again: \.venv/bin/python .*{version or 'run'}", second)
    assert not (venv / "mark").exists() and (venv / "bin" / "pip").exists()


def test_a_link_to_an_unfit_environment_is_replaced_and_its_target_kept(machine, clone):
    shared = earlier(machine, clone, "3.11.7").rename(machine.root / "shared")
    (clone / ".venv").symlink_to(shared)
    make(machine, clone)
    assert (shared / "mark").exists() and not (clone / ".venv").is_symlink()


def test_an_environment_without_pip_is_completed(machine, clone):
    """As one is whose making was interrupted."""
    venv = earlier(machine, clone, "3.13.0")
    (venv / "bin" / "pip").unlink()
    assert make(machine, clone)[0] == "Python 3.13.0: .venv/bin/python"
    assert (venv / "mark").exists() and (venv / "bin" / "pip").exists()


def test_an_installation_that_failed_is_done_again(machine, clone):
    (machine.root / "broken").touch()
    assert machine.run("make", ".venv/.ready", cwd=clone).returncode == 2
    (machine.root / "broken").unlink()
    lines = make(machine, clone)
    assert lines[0] == "Python 3.12.1: .venv/bin/python" and lines[-1] == "touch .venv/.ready"


@pytest.mark.parametrize(("given", "kept"), [("3.12.4", True), ("3.13.0", False)])
def test_the_version_of_the_one_that_is_given_decides(machine, clone, given, kept):
    venv, python = earlier(machine, clone, "3.12.1"), machine.python("given/python", given)
    line = make(machine, clone, PYTHON=python)[0]
    assert line == ("Python 3.12.1: .venv/bin/python" if kept else f"Python 3.13.0: {python}")
    assert (venv / "mark").exists() == kept


@pytest.mark.parametrize("by", ["environment", "argument"])
def test_one_that_is_given_and_unfit_stops_and_changes_nothing(machine, clone, by):
    venv, python = earlier(machine, clone, "3.11.7"), machine.python("given/python", "3.11.7")
    words, variables = ([f"PYTHON={python}"], {}) if by == "argument" else ([], {"PYTHON": python})
    done = machine.run("make", ".venv/.ready", *words, cwd=clone, **variables)
    assert done.returncode == 2 and done.stdout == "" and (venv / "mark").exists()
    assert f"PYTHON={python} is 3.11.7;" in done.stderr.splitlines()[0]


def test_the_tests_of_3_13_have_an_environment_of_their_own(machine, clone):
    machine.python("bin/python3.13", "3.13.0")
    venv = earlier(machine, clone, "3.12.1")
    lines = make(machine, clone, "test-3.13")
    assert lines[0] == f"Python 3.13.0: {machine.bin}/python3.13"
    assert lines[-1].startswith("-m pytest ") and "tests/test_wheel.py" in lines[-1]
    assert (clone / ".venv-3.13" / ".ready").exists() and (venv / "mark").exists()


def test_the_benchmarks_do_not_see_the_python_that_is_given(machine, clone):
    machine.program("clone/benchmarks/cpu.sh", '#!/usr/bin/env bash\necho "PYTHON is ${PYTHON-not set}"\n')
    python = machine.python("given/python", "3.12.4")
    assert make(machine, clone, "bench", f"PYTHON={python}")[-1] == "PYTHON is not set"
    assert make(machine, clone, "bench", PYTHON=python)[-1] == "PYTHON is not set"


def test_the_versions_match_setup():
    allowed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "setup.py").read_text("utf-8"))
    (versions,) = re.findall(r"^PYTHON_VERSIONS \?= (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert versions.split() == allowed
    tested = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "PYTHON_VERSIONS" not in tested and f"make test-{allowed[-1]}\n" in tested  # the first is preferred
