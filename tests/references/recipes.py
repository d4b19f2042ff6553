"""The scripts of the recipes, run as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("espnet-diverse")
STAGES = ["data", "tokens", "stats", "train", "decode", "score"]


def bash(*argv: str | Path, cwd: Path = ROOT, programs: Path = PROGRAM.parent) -> subprocess.CompletedProcess:
    """Run a script as a user would who has activated the environment of these tests."""
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(list(map(str, argv)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
