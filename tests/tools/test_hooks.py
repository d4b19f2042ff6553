"""The hooks of pre-commit are the steps of `make lint`; the hosted workflow runs the script that the others run."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_hooks_are_the_steps_of_lint():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[1]
    steps = {
        re.sub(r" (\.|--check)(?= |$)", "", line.strip().replace("$(BIN)", ".venv/bin")) for line in lint.splitlines()
    }
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert {hook["entry"].removesuffix(" --fix") for hook in repository["hooks"]} == steps


def test_the_workflow_runs_the_script():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text("utf-8"))
    assert workflow["jobs"]["tests"]["steps"][-1]["run"] == "bash .ci/run"
    python = next(step["with"]["python-version"] for step in workflow["jobs"]["tests"]["steps"] if "with" in step)
    assert set(python.split()) == {"3.12", "3.13"}
