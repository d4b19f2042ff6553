"""hashes.txt is what its script makes of constraints.txt and setup.py; it has a hash of each file and no address."""

import importlib.metadata
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HASHES = (ROOT / "hashes.txt").read_text()
PINS = dict(re.findall(r"^(\S+?)==(\S+)", HASHES, re.MULTILINE))
UV = """#!/usr/bin/env bash
echo "$*" >>'{root}/asked'
echo '--index-url https://packages.example/simple'
case $* in
    *--generate-hashes*) printf '%s\\n' 'a==1 \\' '    --hash=sha256:00' ;;
    *) printf '%s\\n' "b==2 ; sys_platform == 'linux'" 'a==1' '{more}' ;;
esac
"""


@pytest.fixture
def renewed(machine):
    """A function that runs the script with a uv that answers; `more` is a line of its answer."""

    def run(*arguments, more="c==3"):
        uv = machine.program("uv", UV.format(root=machine.root, more=more))
        script = machine.root / "tools" / "renew_pins.sh"
        script.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tools" / "renew_pins.sh", script)
        return machine.run(script, *arguments, UV=uv)

    return run


def test_every_package_has_the_version_of_the_constraints_and_hashes():
    constraints = (ROOT / "constraints.txt").read_text().split()
    assert len(PINS) > 150 and not {f"{name}=={version}" for name, version in PINS.items()} - {*constraints}
    entries = re.split(r"\n(?=\S)", HASHES)
    assert len(entries) == len(PINS) and all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in HASHES


def test_every_package_that_the_two_commands_need_is_there():
    needed = importlib.metadata.requires("espnet_diverse")
    test_and_demo = [need for need in needed if "extra" not in need or re.search("'(test|demo)'|\"(test|demo)\"", need)]
    names = {re.match(r"[\w.-]+", need)[0].replace("_", "-").lower() for need in test_and_demo}
    assert len(names) > 30 and names - {"espnet-diverse"} <= PINS.keys()


def test_versions_are_kept_and_addresses_stripped(machine, renewed):
    done = renewed()
    assert done.returncode == 0, done.stderr
    assert (machine.root / "constraints.txt").read_text() == "a==1\nb==2\nc==3\n"
    assert (machine.root / "hashes.txt").read_text() == "a==1 \\\n    --hash=sha256:00\n"
    first, second = (machine.root / "asked").read_text().splitlines()
    assert "-c constraints.txt --all-extras" in first and "--extra test --extra demo" in second


def test_an_upgrade_asks_without_the_constraints(machine, renewed):
    assert renewed("--upgrade").returncode == 0
    assert " -c constraints.txt" not in (machine.root / "asked").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "more", "named"),
    [(("--new",), "c==3", "--new is unknown"), ((), "c @ https://files.example/c.whl", "c @ https://files.example")],
)
def test_what_is_unknown_or_has_an_address_changes_nothing(machine, renewed, arguments, more, named):
    done = renewed(*arguments, more=more)
    assert done.returncode == 1 and named in done.stderr
    assert not (machine.root / "constraints.txt").exists() and not (machine.root / "hashes.txt").exists()
