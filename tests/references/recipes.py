"""The scripts of the recipes, run as a user runs them."""

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

from espnet_diverse.bin.main import run_command
from references.markdown import captured

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("espnet-diverse")
STAGES = ["data", "tokens", "stats", "train", "decode", "score"]


def bash(*argv: str | Path, cwd: Path = ROOT, programs: Path = PROGRAM.parent) -> subprocess.CompletedProcess:
    """Run a script as a user would who has activated the environment of these tests."""
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(list(map(str, argv)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def dry_run(folder: Path, argv: list[str], somewhere: Path) -> str:
    """What a recipe would run; its plan is checked in this process, which has imported PyTorch.

    Args:
        folder: Of the recipe.
        argv: Its command line.
        somewhere: Folder for the plan and for the program that the recipe finds as espnet-diverse.
    """
    program = somewhere / "programs" / PROGRAM.name
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/usr/bin/env bash\n[[ $1 == plan && ${*:3} == *--dry_run ]] && cat "$2"\n')
    program.chmod(0o755)
    result = bash(*argv, *([] if "--dry_run" in argv else ["--dry_run"]), cwd=folder, programs=program.parent)
    assert result.returncode == 0, result.stderr
    (plan := somewhere / "plan.tsv").write_text(result.stdout)
    with contextlib.chdir(folder), captured() as (shown, said):
        code = run_command("plan", [str(plan), "--cache_dir", "exp/.stamps", "--generated", "--dry_run"])
    assert code == 0, said.getvalue()
    return shown.getvalue()


def planned(folder: str, line: str, somewhere: Path) -> str:
    """What a call of a recipe in a page would run; `/path/to/...` becomes `somewhere`."""
    words = [str(somewhere) if word.startswith("/path/to") else word for word in shlex.split(line)]
    return dry_run(ROOT / folder, words, somewhere)
