"""Run the stages of a recipe in one Python process, skipping those that have finished.

Each line of FILE is a stage's name, a tab and a command quoted as for a shell; a line that begins with # is a comment.
Commands of espnet-diverse run inside this process, so that ESPnet is imported once; others run as programs, without a
shell. A command that fails ends the plan with its exit code. Exit code 2 of a command of espnet-diverse says that it
finished but left items out: the plan goes on, and ends with 2.
"""

import argparse
import shlex
import time
from pathlib import Path

from espnet_diverse.errors import ConfigError, UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the plan")
    parser.add_argument("--stamps_dir", type=Path, help="where finished stages are noted (.stamps beside FILE)")
    parser.add_argument("--dry_run", action="store_true", help="only print what would run, judged by what is there now")


def run(args: argparse.Namespace) -> int:
    """Run the plan; every line of it is checked before the first one runs."""
    steps = _read(args.file)
    stamps = args.stamps_dir or args.file.parent / ".stamps"
    worst = 0
    for step in steps:
        if args.dry_run:
            _show(step, stamps)
            continue
        code = _run_step(step, stamps)
        if code not in (0, 2):
            return code
        worst = max(worst, code)
    return worst


def _read(file: Path) -> list:
    """The steps of a plan, one a line."""
    from espnet_diverse.bin.plan_steps import make_step

    try:
        lines = file.read_text(encoding="utf-8").split("\n")
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
                raise ConfigError("has no command; write the stage's name, a tab and the command")
            steps.append(make_step(stage.strip(), argv))
        except ValueError as error:  # a UserError, or shlex met a quote that is not closed
            raise ConfigError(f"{file}:{number}: stage {stage.strip()!r}: {error}") from error
    return steps


def _show(step, stamps: Path) -> None:
    reason = "it always runs" if step.always else step.stamp(stamps).reason()
    _say(step, shlex.join(step.argv))
    _say(step, f"would run: {reason}" if reason else "up to date")


def _run_step(step, stamps: Path) -> int:
    """Run one step unless its stamp says that it has finished; return its exit code, then or now."""
    stamp = step.stamp(stamps)
    if not step.always and stamp.reason() is None:
        code = stamp.exit_code()
        _say(step, "up to date" + _left_out(code))
        return code
    _say(step, shlex.join(step.argv))
    stamp.clear()
    start, code = time.monotonic(), 1
    try:
        code = step.run()
    finally:  # also after an exception or an interrupt: its traceback does not name the stage
        seconds = time.monotonic() - start
        if code not in (0, 2):
            _say(step, f"failed after {seconds:.0f} s with exit code {code}")
    if code not in (0, 2):
        return code
    if missing := stamp.missing():
        raise UserError(f"stage {step.stage!r} ended without an error but did not write {missing}")
    if not step.always:
        stamp.save(code)
    _say(step, f"done in {seconds:.0f} s" + _left_out(code))
    return code


def _say(step, text: str) -> None:
    print(f"[{step.stage}] {text}", flush=True)


def _left_out(code: int) -> str:
    return ", some items left out" if code else ""
