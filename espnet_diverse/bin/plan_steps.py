"""The steps of a plan: commands of espnet-diverse, run in this process, and other programs."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.main import COMMANDS, command_parser, run_command
from espnet_diverse.bin.options.parser import Parser
from espnet_diverse.data.digests import is_data_directory
from espnet_diverse.errors import ConfigError
from espnet_diverse.stage_runs import PROGRAM, Stage, recorded


def make_step(stage: str, argv: list[str]) -> Stage:
    """Make the step that runs a command line.

    Args:
        stage: Name of the stage.
        argv: Command line.

    Raises:
        ConfigError: It is an unknown command of espnet-diverse, or its arguments are not valid.
    """
    return Subcommand(stage, argv) if argv[0] == PROGRAM else Program(stage, argv)


class Subcommand(Stage):
    """A command of espnet-diverse, run in this process.

    The command's module may define `stage(args)`, which returns the stage that the command runs, from its arguments
    alone, or else `inputs(args)` and `outputs(args)`, which return the paths that it reads and writes. Without all of
    them the step always runs. It may also define `check(args, before)`, which reports faults before the first step of a
    plan runs, and `check_machine(args, made)`, which refuses options that this machine cannot serve; `before` has the
    arguments of the earlier commands of the plan, by name, and `made` the paths that they write.

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
        self.of = self._module.stage(self.args) if hasattr(self._module, "stage") else None
        self.always = not (self.of or hasattr(self._module, "inputs") or hasattr(self._module, "outputs"))
        if getattr(self._module, "check", None) or getattr(self.of, "check_options", None):
            self.check_options = self._check_options
        if getattr(self.of or self._module, "check_machine", None):
            self.check_machine = self._check_machine
        self.inputs()  # may raise ConfigError, for example for an unknown configuration fragment

    def command(self) -> list[str]:
        """The command line."""
        return self.argv

    def arguments(self) -> list[str]:
        """The command, and the options that are not the default."""
        if self.of:
            return self.of.arguments()
        values = vars(self.args)
        return [*self.argv[:2], *recorded(values, {name: self._parser.get_default(name) for name in values})]

    def inputs(self) -> list[Path]:
        """Files and directories that are read; a packed model that is given as MODEL, like the files in it."""
        if self.of:
            return self.of.inputs()
        model_dir = getattr(self.args, "model_dir", None)
        packed = [model_dir] if model_dir is not None and model_dir.is_file() else []
        return [*self._paths("inputs"), *packed]

    def outputs(self) -> list[Path]:
        """Files that are written."""
        return self.of.outputs() if self.of else self._paths("outputs")

    def _check_options(self, before: Sequence[Stage]) -> None:
        if self.of:
            self.of.check_options([getattr(step, "of", None) or step for step in before])
        else:
            self._module.check(self.args, {step.argv[1]: step.args for step in before if isinstance(step, Subcommand)})

    def _check_machine(self, before: Sequence[Stage]) -> None:
        if self.of:
            self.of.check_machine(before)
        else:
            self._module.check_machine(self.args, [path for step in before for path in step.outputs()])

    def run(self) -> int:
        """Run the command; return its exit code."""
        return run_command(self.argv[1], self.argv[2:])

    def _paths(self, which: str) -> list[Path]:
        function = getattr(self._module, which, None)
        return function(self.args) if function else []


class Program(Stage):
    """Another program; its inputs are the arguments that are paths of files or Kaldi data directories."""

    def __init__(self, stage: str, argv: list[str]):
        self.stage, self.argv = stage, argv

    def command(self) -> list[str]:
        """The command line."""
        return self.argv

    def arguments(self) -> list[str]:
        """The command line."""
        return self.argv

    def inputs(self) -> list[Path]:
        """The arguments that are paths."""
        return [Path(word) for word in self.argv if Path(word).is_file() or is_data_directory(Path(word))]

    def outputs(self) -> list[Path]:
        """Nothing is known of them."""
        return []

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
