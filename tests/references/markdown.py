"""Blocks and commands of Markdown files, for the tests that hold documentation to what the code does."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_diverse.bin.main import run_command
from espnet_diverse.stage_runs import isolated

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language in a file."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def unfenced(page: Path) -> list[str]:
    """The lines of a file outside of fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()


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


@contextlib.contextmanager
def captured() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What this process writes to standard output and standard error."""
    shown, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(said):
        yield shown, said


def run_here(argv: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess:
    """Run a command of espnet-diverse in this process, which has imported ESPnet, as a plan runs it."""
    words = list(map(str, argv))
    with contextlib.chdir(cwd), captured() as (shown, said), isolated("page"):
        code = run_command(words[1], words[2:])
    return subprocess.CompletedProcess(words, code, shown.getvalue(), said.getvalue())


def printed(done: subprocess.CompletedProcess) -> str:
    """What a script printed, without the line that ESPnet prints when it is imported."""
    return re.sub("Failed to import Flash Attention.*\n", "", done.stdout).strip()
