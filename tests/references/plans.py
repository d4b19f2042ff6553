"""The plan that a recipe prints."""

import shlex
import subprocess


def commands(result: subprocess.CompletedProcess) -> list[tuple[str, list[str]]]:
    """Stages and argument vectors of a printed plan."""
    assert result.returncode == 0, result.stderr
    lines = [line.partition("\t") for line in result.stdout.splitlines() if "\t" in line]
    return [(stage, shlex.split(command)) for stage, _, command in lines]


def value(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]
