"""The steps of a plan: commands of espnet-diverse, run in this process, and other programs."""

import argparse
import contextlib
import logging
import os
import random
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from espnet_diverse.bin.main import COMMANDS, command_parser, run_command
from espnet_diverse.bin.options import settle_model
from espnet_diverse.errors import ConfigError
from espnet_diverse.stage_cache import Stamp, is_data_directory

PROGRAM = "espnet-diverse"
_RESOURCES = {"nj", "ngpu", "device", "debug"}  # options that do not change the result of a command


def make_step(stage: str, argv: list[str]) -> "Subcommand | Program":
    """The step that runs the command line `argv` for `stage`.

    Raises:
        ConfigError: It is a command of espnet-diverse with arguments that the command does not take.
    """
    return Subcommand(stage, argv) if argv[0] == PROGRAM else Program(stage, argv)


class Subcommand:
    """A command of espnet-diverse, run in this process.

    Its module may define `inputs(args)` and `outputs(args)`, which return the paths that the command reads and writes,
    known from the arguments alone. Where it defines neither, the step always runs.
    """

    def __init__(self, stage: str, argv: list[str]):
        self.stage, self.argv = stage, argv
        if len(argv) < 2 or argv[1] not in COMMANDS:
            raise ConfigError(f"{shlex.join(argv)}: no such command; known: {' '.join(COMMANDS)}")
        self._module, self._parser = command_parser(argv[1], _Parser)
        self._args = self._parser.parse_intermixed_args(argv[2:])
        settle_model(self._args)
        self.always = not (hasattr(self._module, "inputs") or hasattr(self._module, "outputs"))
        self._paths("inputs")  # may refuse the arguments, for example an unknown configuration fragment

    def stamp(self, folder: Path) -> Stamp:
        """The stamp of this step with its inputs as they are now."""
        given = {
            name: f"--{name} {value}"
            for name, value in sorted(vars(self._args).items())
            if name not in _RESOURCES and value != self._parser.get_default(name)
        }
        inputs = [*self._paths("inputs"), *self._packed_model()]
        return Stamp(folder, self.stage, [*self.argv[:2], *given.values()], inputs, self._paths("outputs"))

    def run(self) -> int:
        """Run the command; return its exit code."""
        with _isolated(self.argv):
            try:
                return run_command(self.argv[1], self.argv[2:])
            except SystemExit as stop:  # a library gave up; its code 2 does not mean "finished, items left out"
                return 0 if stop.code in (0, None) else 1

    def _packed_model(self) -> list[Path]:
        """The archive that --model_dir names in place of a directory, whose files are inputs of the command then."""
        model_dir = getattr(self._args, "model_dir", None)
        return [model_dir] if model_dir is not None and model_dir.is_file() else []

    def _paths(self, which: str) -> list[Path]:
        function = getattr(self._module, which, None)
        return function(self._args) if function else []


class Program:
    """Any other command; its inputs are those arguments that name a file or a Kaldi data directory."""

    always = False

    def __init__(self, stage: str, argv: list[str]):
        self.stage, self.argv = stage, argv

    def stamp(self, folder: Path) -> Stamp:
        """The stamp of this step with its inputs as they are now."""
        inputs = [Path(word) for word in self.argv if Path(word).is_file() or is_data_directory(Path(word))]
        return Stamp(folder, self.stage, self.argv, inputs, [])

    def run(self) -> int:
        """Run the program; return its exit code, 128 + n after signal n, and 1 in place of 2, which is ours."""
        try:
            code = subprocess.run(self.argv, check=False).returncode
        except OSError as error:
            raise ConfigError(f"{self.argv[0]} cannot be run: {error.strerror}; check its path") from error
        if code < 0:
            return 128 - code
        return 1 if code == 2 else code


class _Parser(argparse.ArgumentParser):
    """A parser that refuses what is wrong with an error instead of ending the process; `--help` is wrong in a plan."""

    def __init__(self, **options):
        super().__init__(add_help=False, **options)

    def error(self, message: str) -> None:
        raise ConfigError(f"{self.prog}: {message}")


@contextlib.contextmanager
def _isolated(argv: list[str]) -> Iterator[None]:
    """Undo what a command does to the state of the process, so that the next one begins as it would alone."""
    root, directory, program = logging.getLogger(), Path.cwd(), sys.argv
    handlers, level = root.handlers[:], root.level
    sys.argv = argv
    try:
        with warnings.catch_warnings(), _kept_random_state():
            yield
    finally:
        sys.argv = program
        os.chdir(directory)
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _kept_random_state() -> Iterator[None]:
    """Restore random generators, and PyTorch's number of threads, of those libraries that are loaded by now."""
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
