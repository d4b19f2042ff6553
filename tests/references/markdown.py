"""Blocks and commands of Markdown files, for the tests that hold documentation to what the code does."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language in a file."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def lines(page: Path) -> list[str]:
    """Each command in the `sh` blocks of a file, without its comment."""
    rows = (line.split("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines())
    return [line for line in rows if line]


def recipe_lines(page: Path) -> list[tuple[str, str]]:
    """Each call of a recipe in a file: the folder that the block has entered, and the command."""
    found, folder = [], "."
    for line in lines(page):
        if line.startswith("cd "):
            folder = line.removeprefix("cd ")
        elif line.startswith("./run.sh"):
            found.append((folder, line))
    return found


def run(argv: Sequence[str | Path], cwd: Path = ROOT) -> subprocess.CompletedProcess:
    """Run a program as a user would who has activated the environment of these tests."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(list(map(str, argv)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def plan(folder: str, line: str, somewhere: Path) -> str:
    """What a call of a recipe would run; `/path/to/...` becomes `somewhere`."""
    words = [str(somewhere) if word.startswith("/path/to") else word for word in shlex.split(line)]
    done = run([*words, *([] if "--dry_run" in words else ["--dry_run"])], ROOT / folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(done: subprocess.CompletedProcess) -> str:
    """What a script printed, without the line that ESPnet prints when it is imported."""
    return re.sub("Failed to import Flash Attention.*\n", "", done.stdout).strip()
