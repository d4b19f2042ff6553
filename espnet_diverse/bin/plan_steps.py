"""The steps of a plan: commands of espnet-diverse, run in this process, and other programs."""

import contextlib
import logging
import os
import random
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from espnet_diverse.bin.main import COMMANDS, Parser, command_parser, run_command
from espnet_diverse.data.digests import is_data_directory
from espnet_diverse.errors import ConfigError
from espnet_diverse.stage_cache import StageRecord

PROGRAM = "espnet-diverse"
# Options that do not change the result of a command.
_RESOURCES = {
    "nj",
    "ngpu",
    "device",
    "cluster",
    "debug",
    "nproc",
    "num_nodes",
    "node_rank",
    "rdzv_endpoint",
    "max_restarts",
}


def make_step(stage: str, argv: list[str]) -> "Subcommand | Program":
    """Make the step that runs a command line.

    Args:
        stage: Name of the stage.
        argv: Command line.

    Raises:
        ConfigError: It is an unknown command of espnet-diverse, or its arguments are not valid.
    """
    return Subcommand(stage, argv) if argv[0] == PROGRAM else Program(stage, argv)


class Subcommand:
    """A command of espnet-diverse, run in this process.

    The command's module may define `inputs(args)` and `outputs(args)`, which return the paths that the command reads
    and writes, from its arguments alone. Without both functions the step always runs. It may also define
    `check(args, before)`, which reports faults before the first step of a plan runs, and `check_machine(args, made)`,
    which refuses options that this machine cannot serve; `before` has the arguments of the earlier commands of the
    plan, by name, and `made` the paths that they write.

    Args:
        stage: Name of the stage.
        argv: Command line, beginning with espnet-diverse.

    Raises:
        ConfigError: The command is unknown, or its arguments are not valid.
    """

    def __init__(self, stage: str, argv: list[str]):
        self.stage, self.argv = stage, argv
        if len(argv) < 2 or argv[1] not in COMMANDS:
            raise ConfigError(f"{shlex.join(argv)}: no such command; known: {' '.join(COMMANDS)}")
        if argv[1] == "plan":  # it could be this one
            raise ConfigError(f"{shlex.join(argv)}: a plan runs no plan; list the stages of that one here")
        self._module, self._parser = command_parser(argv[1], _Parser)
        self.args = self._parser.parse_intermixed_args(argv[2:])
        self.always = not (hasattr(self._module, "inputs") or hasattr(self._module, "outputs"))
        self._paths("inputs")  # may raise ConfigError, for example for an unknown configuration fragment

    def record(self, cache: Path) -> StageRecord:
        """The record of this step in the stage cache, with the current inputs."""
        return self._record(cache, [*self._paths("inputs"), *self._packed_model()])

    def check(self, cache: Path, before: "Iterable[Subcommand | Program]") -> None:
        """Check the step before the first step of the plan runs, unless it has finished.

        Args:
            cache: The stage cache.
            before: The steps before this one in the plan.

        Raises:
            UserError: The command could not succeed.
        """
        if hasattr(self._module, "check") and not self._finished(cache):
            commands = {step.argv[1]: step.args for step in before if isinstance(step, Subcommand)}
            with _isolated(self.argv):
                self._module.check(self.args, commands)

    def check_machine(self, cache: Path, before: "Iterable[Subcommand | Program]") -> None:
        """Check what this machine must have, unless the step has finished; takes the arguments of `check`.

        Raises:
            UserError: The machine lacks something.
        """
        if hasattr(self._module, "check_machine") and not self._finished(cache):
            made = [path for step in before if isinstance(step, Subcommand) for path in step._paths("outputs")]
            with _isolated(self.argv):
                self._module.check_machine(self.args, made)

    def _finished(self, cache: Path) -> bool:
        """Return whether the step has finished with these arguments and files; data directories are not compared."""
        return self._record(cache, filter(Path.is_file, self._paths("inputs"))).finished()

    def _record(self, cache: Path, inputs: Iterable[Path]) -> StageRecord:
        given = {
            name: f"--{name} {value}"
            for name, value in sorted(vars(self.args).items())
            if name not in _RESOURCES and value != self._parser.get_default(name)
        }
        return StageRecord(cache, self.stage, [*self.argv[:2], *given.values()], inputs, self._paths("outputs"))

    def run(self) -> int:
        """Run the command; return its exit code."""
        with _isolated(self.argv):
            try:
                return run_command(self.argv[1], self.argv[2:])
            except SystemExit as stop:  # from a library, whose code 2 does not mean that items were skipped
                return 0 if stop.code in (0, None) else 1

    def _packed_model(self) -> list[Path]:
        """The packed model that is given as MODEL: an input of the command, like the files in it."""
        model_dir = getattr(self.args, "model_dir", None)
        return [model_dir] if model_dir is not None and model_dir.is_file() else []

    def _paths(self, which: str) -> list[Path]:
        function = getattr(self._module, which, None)
        return function(self.args) if function else []


class Program:
    """Another program; its inputs are the arguments that are paths of files or Kaldi data directories."""

    always = False

    def __init__(self, stage: str, argv: list[str]):
        self.stage, self.argv = stage, argv

    def record(self, cache: Path) -> StageRecord:
        """The record of this step in the stage cache, with the current inputs."""
        inputs = [Path(word) for word in self.argv if Path(word).is_file() or is_data_directory(Path(word))]
        return StageRecord(cache, self.stage, self.argv, inputs, [])

    def check(self, cache: Path, before: Iterable) -> None:
        """There is nothing to check."""

    def check_machine(self, cache: Path, before: Iterable) -> None:
        """There is nothing to check."""

    def run(self) -> int:
        """Run the program; return its exit code, 128 + n after signal n, and 1 for 2, which means skipped items."""
        try:
            code = subprocess.run(self.argv, check=False).returncode
        except OSError as error:
            raise ConfigError(f"{self.argv[0]} cannot be run: {error.strerror}; check the path") from error
        if code < 0:
            return 128 - code
        return 1 if code == 2 else code


class _Parser(Parser):
    """A parser that raises ConfigError instead of ending the process, and has no --help."""

    def __init__(self, **options):
        super().__init__(add_help=False, **options)

    def error(self, message: str) -> None:
        raise ConfigError(f"{self.prog}: {message}; {self.advice(message)}")


@contextlib.contextmanager
def _isolated(argv: list[str]) -> Iterator[None]:
    """Restore the state of the process after a command, so that commands do not affect each other."""
    root, directory, program = logging.getLogger(), Path.cwd(), sys.argv
    handlers, level = root.handlers[:], root.level
    environment = dict(os.environ)
    sys.argv = argv
    try:
        with warnings.catch_warnings(), _kept_random_state():
            yield
    finally:
        sys.argv = program
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _kept_random_state() -> Iterator[None]:
    """Restore random generators and PyTorch's number of threads, for the libraries that are loaded."""
    state = random.getstate()
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    numpy_state = numpy.random.get_state() if numpy else None
    torch_state, threads = (torch.get_rng_state(), torch.get_num_threads()) if torch else (None, None)
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)
            torch.set_num_threads(threads)
