"""The errors a user of the package can meet.

Every message says what is wrong (with the value, file, line or utterance), what is allowed, and what to do.
The command line prints it as one line and exits with `exit_code`; a traceback is shown only with `--debug`.
"""


class UserError(ValueError):
    """Something the user gave is wrong, and the user can mend it."""

    exit_code = 1


class ConfigError(UserError):
    """A configuration key or value is unknown or out of range."""


class DataError(UserError):
    """A data directory, corpus, transcript or audio file is wrong."""


class ModelError(UserError):
    """A model file is missing, foreign or does not fit its configuration."""


class TrainingError(UserError):
    """Training cannot go on or ended in a state that must not be used."""
