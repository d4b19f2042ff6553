"""Errors that a user of the package can cause and correct.

Every message says what is wrong (with the value, file, line or utterance), what is allowed, and what to do. The command
line prints the message as one line and exits with `exit_code`; it shows a traceback only with `--debug`.
"""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType


class UserError(ValueError):
    """Base class: an input is wrong, and the user can correct it."""

    exit_code = 1


class ConfigError(UserError):
    """A key or value of the configuration is unknown or out of range."""


class DataError(UserError):
    """A data directory, corpus, transcript or audio file is wrong."""


class TruncatedError(DataError):
    """An audio file ends before the end that its header or container states; the part that is there can be read."""


class ModelError(UserError):
    """A model file is missing or damaged, or does not fit its configuration."""


class NoBatchedSearchError(ModelError):
    """A net is of a class that our batched search does not support; ESPnet's search may."""


class TrainingError(UserError):
    """Training cannot continue, or its result is unusable."""


class InterruptedRunError(UserError):
    """Training was stopped on request; the same command continues it. The exit code is EX_TEMPFAIL of sysexits.h."""

    exit_code = 75


class ClusterError(UserError):
    """A cluster cannot be started or was lost, or its workers do not see what the client sees."""


def first_line(error: BaseException) -> str:
    """The first line of the message of a library, without a final full stop, or the type of an error without one."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def abridged(items: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """The first items of a list for a message, and the number of the others."""
    items = list(items)
    suffix = f" and {len(items) - most} more" if len(items) > most else ""
    return separator.join(items[:most]) + suffix


@contextmanager
def prefixed(where: object, kind: type[UserError] = ConfigError) -> Iterator[None]:
    """Put `where` before the message of an error of the block.

    Raises:
        ConfigError: Replaces an error of class `kind`.
    """
    try:
        yield
    except kind as error:
        raise ConfigError(f"{where}: {error}") from error


def optional_package(name: str, what: str, extra: str) -> ModuleType:
    """Import a package that an extra of `espnet_diverse` installs.

    Args:
        name: Name of the package.
        what: Feature that needs it, for the message.
        extra: Name of the extra.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{what} needs {name}; run: pip install 'espnet_diverse[{extra}]'") from error
