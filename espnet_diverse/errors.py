"""Errors that a user of the package can cause and correct.

Every message says what is wrong (with the value, file, line or utterance), what is allowed, and what to do. The command
line prints the message as one line and exits with `exit_code`; it shows a traceback only with `--debug`.
"""


class UserError(ValueError):
    """Base class: an input is wrong, and the user can correct it."""

    exit_code = 1


class ConfigError(UserError):
    """A key or value of the configuration is unknown or out of range."""


class DataError(UserError):
    """A data directory, corpus, transcript or audio file is wrong."""


class ModelError(UserError):
    """A model file is missing or damaged, or does not fit its configuration."""


class NoBatchedSearchError(ModelError):
    """A net is of a class that our batched search does not support; ESPnet's search may."""


class TrainingError(UserError):
    """Training cannot continue, or its result is unusable."""


class InterruptedRunError(UserError):
    """Training was asked to stop; the same command goes on. The exit code is EX_TEMPFAIL of sysexits.h: try again."""

    exit_code = 75


class ClusterError(UserError):
    """A cluster cannot be started or was lost, or its workers do not see what the client sees."""
