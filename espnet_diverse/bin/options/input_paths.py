"""Paths that commands read, declared as types of arguments and checked before PyTorch is imported, which takes seconds.

    parser.add_argument("--train_dir", type=DATA_DIR, required=True)

`check_paths` refuses the value `dta` of this argument: --train_dir dta: there is no such directory; did you mean data?
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG

from espnet_diverse.errors import DataError
from espnet_diverse.option_checks import similar_path

_KINDS = {True: "directory", False: "file", None: "file or directory"}


@dataclass(frozen=True)
class InputPath:
    """Type of an argument that names a file or directory to read.

    Attributes:
        todo: What to do if there is none.
        is_dir: Whether it is a directory; None for both.
        is_data: Whether it is a data directory.
        must_have: Name of a file or folder that the directory must have.
        pipe: Whether it may be a pipe, or - for standard input.
    """

    todo: str
    is_dir: bool | None = True
    is_data: bool = False
    must_have: str = ""
    pipe: bool = False

    def __call__(self, text: str) -> Path:
        return Path(text)

    def check(self, name: str, path: Path) -> None:
        """Check a value.

        Args:
            name: Name of the option, or "" for a positional argument.
            path: The value.

        Raises:
            DataError: There is no such file or directory, or it lacks what it must have.
        """
        if self.pipe and str(path) == "-":
            return
        kind, label = _KINDS[self.is_dir], f"{name} {path}".strip()
        if self.is_data:
            from espnet_diverse.data.tables import data_dir_fault  # not for --help

            if wrong := data_dir_fault(path):
                raise DataError(f"{label}: {wrong}")
            return
        if not path.exists():
            near = similar_path(path)
            raise DataError(f"{label}: there is no such {kind}; {f'did you mean {near}?' if near else self.todo}")
        if self.is_dir is not None and path.is_dir() != self.is_dir:
            raise DataError(f"{label}: is a {_KINDS[not self.is_dir]}, and a {kind} is needed; {self.todo}")
        if self.must_have and not (path / self.must_have).exists():
            raise DataError(f"{label}: has no {self.must_have}; {self.todo}")


DATA_DIR = InputPath("give a data directory", is_data=True)
SETS_DIR = InputPath("correct the path, or make it with espnet-diverse prepare")
"""A folder of data directories."""
TOKENS_DIR = InputPath("make it with espnet-diverse tokens", must_have="tokens.yaml")
STATS_DIR = InputPath("make it with espnet-diverse stats", must_have="train")
RUN_DIR = InputPath("give the directory of a run", must_have="config.yaml")
FILE = InputPath("correct the path", is_dir=False)
TABLE = InputPath("correct the path", is_dir=False, pipe=True)
ANY = InputPath("correct the path", is_dir=None)


def check_kind(name: str, path: Path, pipe: bool = False) -> None:
    """Refuse a path that cannot be followed, or leads to a device or pipe, which is neither read nor replaced.

    Args:
        name: Name of the option, or "".
        path: The path; it need not exist.
        pipe: Whether it may be a pipe.

    Raises:
        DataError: It is such a path.
    """
    label = f"{name} {path}".strip()
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # an output, or told by what reads it
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{label}: cannot be opened ({why}); correct the path") from error
    if not (S_ISREG(mode) or S_ISDIR(mode) or pipe and S_ISFIFO(mode)):
        raise DataError(f"{label}: is a pipe or a device; give a file or a directory")


def check_paths(actions: Iterable[argparse.Action], args: argparse.Namespace) -> None:
    """Check the paths of inputs and outputs, those that an `InputPath` declares, and models.

    Args:
        actions: The arguments that the command declares.
        args: Their values.

    Raises:
        DataError: A file or directory does not exist, or lacks what it must have, or a path is neither.
        ModelError: A model, its weights or a language model do not exist.
    """
    for action in actions:
        value = getattr(args, action.dest, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                name = next(iter(action.option_strings), "")
                check_kind(name, path, getattr(action.type, "pipe", False))
                if isinstance(action.type, InputPath):
                    action.type.check(name, path)
    from espnet_diverse.runs.model_files import check_exists, find_weights, is_whisper  # not for --help

    if getattr(args, "format", None) == "lhotse":  # `export lhotse` takes a data directory as MODEL
        DATA_DIR.check("", args.model_dir)
        return
    for model, weights in ("model_dir", "model_file"), ("lm", "lm_file"):
        if (path := getattr(args, model, None)) is not None:
            check_exists(path)
            if path.is_dir() and hasattr(args, weights) and not is_whisper(path):
                find_weights(path, getattr(args, weights))
