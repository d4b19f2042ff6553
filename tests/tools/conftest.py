"""A machine whose interpreters, pyenv, uv and pip are scripts that stand for them."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    "bash",
    "cat",
    "cp",
    "cut",
    "dirname",
    "grep",
    "make",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "sed",
    "sh",
    "sort",
    "timeout",
    "touch",
)
PYTHON = """#!/usr/bin/env bash
case "$1 $2" in
    "-c import pip") [[ -e ${{0%/*}}/pip ]] ;;
    -c*) printf '%s\\n' {version}; exit {status} ;;
    "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/pip"; touch "$3/pyvenv.cfg" ;;
    "-m pip") cp '{root}/index/uv' "${{0%/*}}" ;;
    *) printf '%s\\n' "$*" ;;
esac
"""
UV = """#!/usr/bin/env bash
case "$1 $2" in
    "pip install") [[ ! -e '{root}/broken' ]] ;;
    "python find") [[ $3 = --system ]] && cat '{root}/known/'"$4" ;;
    "python install") mv '{root}/offered/'"$3" '{root}/known/' ;;
esac
"""


class Machine:
    """A folder with programs: `bin` is its PATH, `home` its home, `index` what pip finds, `known` what uv knows."""

    def __init__(self, root: Path):
        self.root, self.bin, self.home = root, root / "bin", root / "home"
        for folder in (self.bin, self.home, root / "index", root / "known", root / "offered"):
            folder.mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name))

    def python(self, path: str, version: str = "", status: int = 0) -> Path:
        """An interpreter at a path below the root; without a version it fails as a shim of pyenv does."""
        content = PYTHON.format(root=self.root, version=version, status=status if version else 127)
        return self.program(path, content)

    def uv(self, path: str = "bin/uv", **versions: str) -> None:
        """A uv; `versions` are of the interpreters that it knows (`known`), or can get (`offered`)."""
        self.program(path, UV.format(root=self.root))
        for folder, version in versions.items():
            python = self.python(f"of_uv/{version}/bin/python", f"{version}.1")
            (self.root / folder / version).write_text(f"{python}\n")

    def program(self, path: str, content: str) -> Path:
        """An executable script at a path below the root."""
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(content)
        program.chmod(0o755)
        return program

    def run(self, *command: str | Path, cwd: Path = ROOT, **environment: object) -> subprocess.CompletedProcess:
        """Run a command with nothing of this process's environment."""
        variables = {"PATH": str(self.bin), "HOME": str(self.home)}
        variables |= {name: str(value) for name, value in environment.items()}
        return subprocess.run(
            list(map(str, command)), cwd=cwd, env=variables, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path) -> Machine:
    """A machine without any interpreter; its path has a space."""
    root = tmp_path / "my machine"
    root.mkdir()
    return Machine(root)
