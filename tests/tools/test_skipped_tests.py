"""What `make test` skips is listed with the command that runs it; a clean environment runs the README's command."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = """
import os
import pytest

@pytest.mark.skipif("CHROMIUM" not in os.environ, reason="there is no Chromium")
@pytest.mark.parametrize("width", ["390 px", "1280 px"])
def test_page(width): ...

def test_always(): ...
"""
LIBRARY = 'import pytest\npytest.importorskip("no_such_library", reason="the extra `x` is absent")\n'


def pytest_run(folder, *arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "references.skipped", *arguments]
    paths = {"PYTHONPATH": str(ROOT / "tests"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=paths | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_skipped_tests_are_listed_and_run_later(tmp_path):
    (tmp_path / "test_page.py").write_text(CASES)
    (tmp_path / "test_library.py").write_text(LIBRARY + "def test_it(): ...\n")
    out = pytest_run(tmp_path, "--skipped", "build/skipped.txt")
    assert "1 passed, 3 skipped" in out and "there is no Chromium" in out and "the extra `x` is absent" in out
    assert "make test-skipped" in out
    names = (tmp_path / "build" / "skipped.txt").read_text().splitlines()
    assert names == ["test_library.py", "test_page.py::test_page[1280 px]", "test_page.py::test_page[390 px]"]
    assert "2 passed, 1 skipped" in pytest_run(tmp_path, "@build/skipped.txt", CHROMIUM="1")


def test_nothing_is_written_if_nothing_is_skipped(tmp_path):
    (tmp_path / "test_page.py").write_text(CASES)
    assert "make" not in pytest_run(tmp_path, "--skipped", "build/skipped.txt", CHROMIUM="1")
    assert not (tmp_path / "build").exists()


def test_the_first_step_is_the_command_of_the_readme():
    """Without other extras than the default ones, and without the programs that some tests need."""
    steps = [line for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if "make test" in line]
    assert steps[0] == "stranger make test" and "EXTRAS" not in "".join(steps)
    assert "\nmake test " in (ROOT / "README.md").read_text("utf-8")
