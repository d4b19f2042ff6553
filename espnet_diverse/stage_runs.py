"""Runs of stages: all are checked before the first one, and those that have finished are skipped."""

import logging
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from espnet_diverse.errors import UserError, prefixed
from espnet_diverse.process_state import restored
from espnet_diverse.stage_cache import StageRecord

PROGRAM = "espnet-diverse"
_RESOURCES = {
    *("nj", "ngpu", "device", "cluster", "debug"),
    *("processes", "nproc", "num_nodes", "node_rank", "rdzv_endpoint", "max_restarts"),
}
"""Options that do not change the result of a command."""


def recorded(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """The options of a stage as its record has them: those that are not the default and no resources, by name.

    Args:
        values: Values by name of the option.
        defaults: Defaults by name.
    """
    pairs = {name: (_plain(value), _plain(defaults.get(name))) for name, value in sorted(values.items())}
    return [f"--{name} {value}" for name, (value, usual) in pairs.items() if name not in _RESOURCES and value != usual]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class Stage(ABC):
    """A stage.

    Attributes:
        stage: Name of the stage.
        always: Whether it runs even if it has finished.
        check_options: Method that raises a `UserError` if the stage could not succeed, called with the stages before it
            before the first one runs, unless it has finished; None for none.
        check_machine: The same for what this machine must have; a dry run only prints the error.
    """

    stage: str
    always = False
    check_options: Callable[[Sequence["Stage"]], None] | None = None
    check_machine: Callable[[Sequence["Stage"]], None] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of the stage, which is shown."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """The command as the record has it: the stage runs again after a change."""

    @abstractmethod
    def inputs(self) -> list[Path]:
        """Files and directories that are read."""

    @abstractmethod
    def outputs(self) -> list[Path]:
        """Files that are written."""

    @abstractmethod
    def run(self) -> int:
        """Run the stage; return its exit code."""

    def record(self, cache: Path) -> StageRecord:
        """The record of the stage, with the current inputs."""
        return StageRecord(cache, self.stage, self.arguments(), self.inputs(), self.outputs())

    def finished(self, cache: Path) -> bool:
        """Return whether it has finished with these arguments and files; data directories are not compared."""
        files = filter(Path.is_file, self.inputs())
        return StageRecord(cache, self.stage, self.arguments(), files, self.outputs()).finished()


def run_stages(stages: Sequence[Stage], cache: Path, dry_run: bool = False) -> int:
    """Check stages, and run those that have not finished; return the exit code.

    Args:
        stages: The stages.
        cache: Folder with the records of finished stages.
        dry_run: Whether only to print the commands that would run.

    Raises:
        ConfigError: A stage is wrong.
        UserError: A stage has failed, or has not written its outputs.
    """
    for number, stage in enumerate(stages):
        with prefixed(f"stage {stage.stage!r}", UserError):
            _check(stage, stage.check_options, cache, stages[:number])
    if dry_run:
        _show(stages, cache)
        return 0
    for number, stage in enumerate(stages):
        with prefixed(f"stage {stage.stage!r}", UserError):
            _check(stage, stage.check_machine, cache, stages[:number])
    worst = 0
    for stage in stages:
        code = _run(stage, cache)
        if code not in (0, 2):
            return code
        worst = max(worst, code)
    return worst


def _check(stage: Stage, check: Callable | None, cache: Path, before: Sequence[Stage]) -> None:
    """Check a stage unless it has finished, by a check that may be None."""
    if check is not None and not stage.finished(cache):
        with isolated(stage.stage):
            check(before)


@contextmanager
def isolated(name: str) -> Iterator[None]:
    """Restore the process after the block; print warnings with the name of a stage if nothing else prints them."""
    with restored():
        logging.basicConfig(format=f"espnet-diverse {name}: %(message)s")
        yield


def _show(stages: Sequence[Stage], cache: Path) -> None:
    """Print the commands, and which would run and why, also because an earlier one would rewrite their inputs."""
    made: list[str] = []
    for number, stage in enumerate(stages):
        record = stage.record(cache)
        reason = "it always runs" if stage.always else record.reason()
        if reason is None and (rewritten := record.rewritten_input(made)):
            reason = f"its input {rewritten} will be rewritten"
        if reason:
            made += record.outputs
        _print(stage, shlex.join(stage.command()))
        _print(stage, f"would run: {reason}" if reason else "up to date")
        try:
            _check(stage, stage.check_machine, cache, stages[:number])
        except UserError as error:
            _print(stage, f"not on this machine: {error}")


def _run(stage: Stage, cache: Path) -> int:
    """Run a stage, unless the stage cache records it as finished; return its exit code, new or recorded."""
    record = stage.record(cache)
    if not stage.always and record.reason() is None:
        code = record.exit_code()
        _print(stage, "up to date" + _skipped(code))
        return code
    _print(stage, shlex.join(stage.command()))
    record.clear()
    start, code = time.monotonic(), 1
    try:
        with isolated(stage.stage):
            code = stage.run()
    except SystemExit as stop:  # from a library, whose code 2 does not mean that items were skipped
        code = 0 if stop.code in (0, None) else 1
    except UserError as error:
        code = error.exit_code
        raise
    finally:  # also after an exception or interrupt, whose traceback does not name the stage
        seconds = time.monotonic() - start
        if code not in (0, 2):
            _print(stage, f"failed after {seconds:.0f} s with exit code {code}")
    if code not in (0, 2):
        return code
    if missing := record.missing():
        raise UserError(f"stage {stage.stage!r} ended without an error but did not write {missing}")
    if not stage.always:
        record.save(code)
    _print(stage, f"done in {seconds:.0f} s" + _skipped(code))
    return code


def _print(stage: Stage, text: str) -> None:
    print(f"[{stage.stage}] {text}", flush=True)


def _skipped(code: int) -> str:
    return ", some items skipped" if code else ""
