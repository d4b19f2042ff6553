"""An interpreter is found, or the error names in one line all places that were searched."""

import platform
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIND = ROOT / "tools" / "find_python.sh"
PYENV = "#!/usr/bin/env bash\necho '{root}/pyenv'\n"


def found(machine, *versions, **environment):
    """Version and path of the interpreter that is found, the path from the machine's root."""
    done = machine.run(FIND, *(versions or ("3.12", "3.13")), **environment)
    assert (done.returncode, done.stderr) == (0, "")
    version, path = done.stdout.rstrip("\n").split(" ", 1)
    return version, str(Path(path).relative_to(machine.root))


def error(machine, *versions, **environment):
    """The line that says why nothing is found."""
    done = machine.run(FIND, *(versions or ("3.12", "3.13")), **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    return done.stderr


@pytest.mark.parametrize("script", [*ROOT.glob("tools/*.sh"), ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_shellcheck_finds_nothing(machine, script):
    done = machine.run(Path(sys.executable).with_name("shellcheck"), script)
    assert done.returncode == 0, done.stdout


def test_the_one_that_is_given_is_taken(machine):
    machine.python("bin/python3.12", "3.12.1")
    given = machine.python("elsewhere/python", "3.13.0")
    assert found(machine, PYTHON=given) == ("3.13.0", "elsewhere/python")


@pytest.mark.parametrize(
    ("version", "status", "fault"),
    [
        ("3.11.7", 0, "3.11.7"),
        ("3.14.0", 0, "3.14.0"),
        ("3.1.2", 0, "3.1.2"),
        ("3.13.0t", 0, "3.13.0t"),
        ("2.7.18", 0, "2.7.18"),
        ("", 0, "does not run"),
        ("3.12.1", 1, "ensurepip .*python3.12-venv"),
    ],
)
def test_one_that_is_given_and_unfit_stops_the_search(machine, version, status, fault):
    machine.python("bin/python3.12", "3.12.1")
    given = machine.python("elsewhere/python", version, status)
    assert re.search(f"PYTHON={given} .*{fault}.*3.12 or 3.13", error(machine, PYTHON=given))


def test_one_that_is_given_and_missing_stops_the_search(machine):
    machine.python("bin/python3.12", "3.12.1")
    assert "PYTHON=nowhere/python " in error(machine, PYTHON="nowhere/python")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"python3.13": "3.13.2", "python3": "3.11.7"}, ("3.13.2", "bin/python3.13")),
        ({"python3.13": "3.13.2", "python3.12": "3.12.1"}, ("3.12.1", "bin/python3.12")),
        ({"python3": "3.13.2"}, ("3.13.2", "bin/python3")),
        ({"python3.12": "", "python3.13": "", "python3": "3.12.10"}, ("3.12.10", "bin/python3")),
    ],
    ids=["one", "preferred", "python3", "shims"],
)
def test_path(machine, names, expected):
    for name, version in names.items():
        machine.python(f"bin/{name}", version)
    machine.python("home/.pyenv/versions/3.12.9/bin/python3", "3.12.9")
    assert found(machine) == expected


def test_one_version_can_be_asked_for(machine):
    machine.python("bin/python3.12", "3.12.1")
    machine.python("bin/python3", "3.12.1")
    machine.python("home/.pyenv/versions/3.13.0/bin/python3", "3.13.0")
    assert found(machine, "3.13") == ("3.13.0", "home/.pyenv/versions/3.13.0/bin/python3")


def test_one_that_cannot_make_environments_is_passed_over(machine):
    machine.python("bin/python3.12", "3.12.1", status=1)
    machine.python("bin/python3", "3.13.2")
    assert found(machine) == ("3.13.2", "bin/python3")


@pytest.mark.parametrize("root", ["pyenv", "variable", "home/.pyenv"])
def test_versions_of_pyenv_newest_first(machine, root):
    """Below the root that pyenv names; without pyenv on PATH that of $PYENV_ROOT, or the usual one."""
    if root == "pyenv":
        machine.program("bin/pyenv", PYENV.format(root=machine.root))
    for name in ("python3.12", "python3.13", "python3"):
        machine.python(f"bin/{name}")
    for version in ("3.11.7", "3.12.9", "3.12.10", "3.13.0"):
        machine.python(f"{root}/versions/{version}/bin/python3", version)
    environment = {"PYENV_ROOT": machine.root / root} if root == "variable" else {}
    assert found(machine, **environment) == ("3.12.10", f"{root}/versions/3.12.10/bin/python3")


def test_a_python_that_uv_knows(machine):
    machine.python("bin/python3", "3.11.7")
    machine.uv(known="3.13", offered="3.12")
    assert found(machine) == ("3.13.1", "of_uv/3.13/bin/python")
    assert (machine.root / "offered" / "3.12").exists()


def test_a_python_that_uv_installs(machine):
    machine.python("bin/python3", "3.11.7")
    machine.uv(offered="3.12")
    assert found(machine) == ("3.12.1", "of_uv/3.12/bin/python")


def test_a_uv_that_pip_installs(machine):
    temporary = machine.root / "temporary"
    temporary.mkdir()
    machine.python("bin/python3", "3.11.7")
    machine.uv("index/uv", offered="3.12")
    assert found(machine, TMPDIR=temporary) == ("3.12.1", "of_uv/3.12/bin/python")
    assert list(temporary.iterdir()) == []


def test_the_error_lists_all_places_searched(machine):
    machine.python("bin/python3.12", "3.12.1", status=1)
    machine.python("bin/python3", "3.11.7")
    machine.python("home/.pyenv/versions/3.13.0/bin/python3")
    said = error(machine)
    for fault in (
        f"{machine.bin}/python3.12 has no venv or no ensurepip",
        "no python3.13 on PATH",
        f"{machine.bin}/python3 is 3.11.7",
        f"no 3.12 in {machine.home}/.pyenv/versions",
        f"{machine.home}/.pyenv/versions/3.13.0/bin/python3 does not run",
        "no uv on PATH, nor can pip",
        "PYTHON=/path/to/python",
    ):
        assert fault in said
    machine.uv()
    assert re.search("uv knows no 3.12; .*3.13; uv cannot install 3.12; ", error(machine))


def test_the_interpreter_of_these_tests_is_fit(machine, tmp_path):
    version = platform.python_version()
    short = ".".join(version.split(".")[:2])
    done = machine.run(FIND, short, PYTHON=sys.executable)
    assert done.stdout == f"{version} {sys.executable}\n", done.stderr
    (tmp_path / "ensurepip.py").write_text("raise ImportError")
    assert f"python{short}-venv" in error(machine, short, PYTHON=sys.executable, PYTHONPATH=tmp_path)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.abiflags = 't'")
    assert f" is {version}t;" in error(machine, short, PYTHON=sys.executable, PYTHONPATH=tmp_path)


def test_without_versions_it_says_how_it_is_called(machine):
    done = machine.run(FIND)
    assert done.returncode == 2 and done.stderr.startswith("usage: ")
