"""Run the stages of a recipe in one Python process, skipping those that have finished.

Each line of FILE has the name of a stage, a tab and a command quoted as for a shell; lines that begin with # are
comments. Commands of espnet-diverse run in this process, so that ESPnet is imported once; others run as programs,
without a shell. A command that fails ends the plan with its exit code. Exit code 2 of a command of espnet-diverse means
that it finished but skipped items: the plan continues, and ends with 2.
"""

import argparse
import shlex
import time
from pathlib import Path

from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError, UserError, prefixed


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
    return run_steps(_read(args.file, args.generated), args.cache_dir or args.file.parent / ".stamps", args.dry_run)


def run_steps(steps: list, cache: Path, dry_run: bool = False) -> int:
    """Check steps, as `plan_steps.make_step` makes them, and run those that have not finished; return the exit code.

    Args:
        steps: The steps.
        cache: Directory of the stage cache.
        dry_run: Whether only to print the commands that would run.

    Raises:
        ConfigError: A step is wrong.
        UserError: A step has failed, or has not written its outputs.
    """
    for number, step in enumerate(steps):
        with prefixed(f"stage {step.stage!r}", UserError):
            step.check(cache, steps[:number])
    if dry_run:
        _show(steps, cache)
        return 0
    for number, step in enumerate(steps):
        with prefixed(f"stage {step.stage!r}", UserError):
            step.check_machine(cache, steps[:number])
    worst = 0
    for step in steps:
        code = _run_step(step, cache)
        if code not in (0, 2):
            return code
        worst = max(worst, code)
    return worst


def _read(file: Path, generated: bool = False) -> list:
    """Read the steps of a plan, one per line; errors name the file, unless it was generated, and the stage."""
    from espnet_diverse.bin.plan_steps import make_step

    try:
        lines = read_utf8(file, f"plan {file}", error=ConfigError).split("\n")
    except FileNotFoundError as error:
        raise ConfigError(f"plan {file} is not found; give the path of an existing plan") from error
    steps = []
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


def _show(steps: list, cache: Path) -> None:
    """Print the commands, and which would run and why, also because an earlier one would rewrite their inputs."""
    made: list[str] = []
    for number, step in enumerate(steps):
        record = step.record(cache)
        reason = "it always runs" if step.always else record.reason()
        if reason is None and (rewritten := record.rewritten_input(made)):
            reason = f"its input {rewritten} will be rewritten"
        if reason:
            made += record.outputs
        _print(step, shlex.join(step.argv))
        _print(step, f"would run: {reason}" if reason else "up to date")
        try:
            step.check_machine(cache, steps[:number])
        except UserError as error:
            _print(step, f"not on this machine: {error}")


def _run_step(step, cache: Path) -> int:
    """Run one step, unless the stage cache records it as finished; return its exit code, new or recorded."""
    record = step.record(cache)
    if not step.always and record.reason() is None:
        code = record.exit_code()
        _print(step, "up to date" + _skipped(code))
        return code
    _print(step, shlex.join(step.argv))
    record.clear()
    start, code = time.monotonic(), 1
    try:
        code = step.run()
    finally:  # also after an exception or interrupt, whose traceback does not name the stage
        seconds = time.monotonic() - start
        if code not in (0, 2):
            _print(step, f"failed after {seconds:.0f} s with exit code {code}")
    if code not in (0, 2):
        return code
    if missing := record.missing():
        raise UserError(f"stage {step.stage!r} ended without an error but did not write {missing}")
    if not step.always:
        record.save(code)
    _print(step, f"done in {seconds:.0f} s" + _skipped(code))
    return code


def _print(step, text: str) -> None:
    print(f"[{step.stage}] {text}", flush=True)


def _skipped(code: int) -> str:
    return ", some items skipped" if code else ""
