"""Run the stages of a recipe in one Python process, skipping those that have finished.

Each line of FILE has the name of a stage, a tab and a command quoted as for a shell; lines that begin with # are
comments. Commands of espnet-diverse run in this process, so that ESPnet is imported once; others run as programs,
without a shell. A command that fails ends the plan with its exit code. Exit code 2 of a command of espnet-diverse means
that it finished but skipped items: the plan continues, and ends with 2.
"""

import argparse
import shlex
from pathlib import Path

from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError
from espnet_diverse.stage_runs import Stage, run_stages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the plan")
    parser.add_argument(
        "--cache_dir",
        type=Path,
        metavar="DIR",
        help="stage cache, with one record per finished stage (default: .stamps beside FILE)",
    )
    # A plan that run.sh makes and deletes: its name and lines say nothing to a user.
    parser.add_argument("--generated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dry_run", action="store_true", help="only print the commands that would run now")


def run(args: argparse.Namespace) -> int:
    """Run the plan, after checking all lines and whatever the commands can check in advance."""
    return run_stages(_read(args.file, args.generated), args.cache_dir or args.file.parent / ".stamps", args.dry_run)


def _read(file: Path, generated: bool = False) -> list[Stage]:
    """Read the steps of a plan, one per line; errors name the file, unless it was generated, and the stage."""
    from espnet_diverse.bin.plan_steps import make_step

    try:
        lines = read_utf8(file, f"plan {file}", error=ConfigError).split("\n")
    except FileNotFoundError as error:
        raise ConfigError(f"plan {file} is not found; give the path of an existing plan") from error
    steps: list[Stage] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        stage, _, command = line.partition("\t")
        try:
            argv = shlex.split(command)
            if not (stage.strip() and argv):
                raise ConfigError("has no command; write the name of the stage, a tab and the command")
            steps.append(make_step(stage.strip(), argv))
        except ValueError as error:  # a UserError, or an unclosed quote found by shlex
            where = "" if generated else f"{file}:{number}: "
            raise ConfigError(f"{where}stage {stage.strip()!r}: {error}") from error
    return steps
