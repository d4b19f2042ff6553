"""A release: two builds of a commit have equal bytes, and the bill of materials names what is installed."""

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.recipes

ROOT = Path(__file__).parents[2]


def released(clone, folder, umask, **variables):
    """The wheel and the bill that the script makes, in a process with a umask and variables of its own."""
    command = [clone / "tools" / "release.sh", folder]
    environment = os.environ | {"PYTHON": sys.executable} | variables
    done = subprocess.run(command, umask=umask, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,), (bill,) = folder.glob("*.whl"), folder.glob("*.json")
    assert done.stdout.split() == [hashlib.sha256(wheel.read_bytes()).hexdigest(), str(wheel)]
    return wheel.read_bytes(), json.loads(bill.read_bytes())


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """Two clones of the repository; one has a file more that no commit has, and other permissions."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git, or no repository")
    folders = [tmp_path_factory.mktemp(name) / "clone" for name in ("one", "a_longer_name")]
    for folder, umask in zip(folders, (0o022, 0o077), strict=True):
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], umask=umask, check=True)
    (folders[1] / "espnet_diverse" / "extra.py").write_text("")
    return folders


def test_two_builds_have_equal_bytes(clones, tmp_path):
    first, second = clones
    wheel, bill = released(first, tmp_path / "1", 0o022)
    again, bill_again = released(second, tmp_path / "2", 0o077, TZ="Asia/Tokyo", LC_ALL="C", SOURCE_DATE_EPOCH="1")
    assert wheel == again and bill == bill_again


def test_the_bill_names_versions_scopes_and_what_needs_what(clones, tmp_path):
    _, bill = released(clones[0], tmp_path, 0o022)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["name"]: part for part in bill["components"]}
    for name, scope in {
        "torch": "required",
        "espnet": "required",
        "numpy": "required",
        "starlette": "optional",
    }.items():
        assert parts[name]["version"] == importlib.metadata.version(name) and parts[name]["scope"] == scope
    needed = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    subject = bill["metadata"]["component"]["bom-ref"]
    assert needed.keys() == {part["bom-ref"] for part in parts.values()} | {subject}
    assert {ref for refs in needed.values() for ref in refs} <= needed.keys()
    assert parts["torch"]["bom-ref"] in needed[parts["espnet"]["bom-ref"]] and "://" not in json.dumps(bill)
