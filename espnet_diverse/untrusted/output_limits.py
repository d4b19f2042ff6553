"""Limits of the output of a program for one audio file: a file of kilobytes can hold days of silence."""

import os
from pathlib import Path

from espnet_diverse.errors import ConfigError

VARIABLE = "ESPNET_DIVERSE_MAX_DECODED_MB"
"""Environment variable with a limit in MB that replaces `most_bytes`."""
MOST_SECONDS = 3600.0
"""Maximum time of a program for one file."""
_ALWAYS, _RATIO = 1 << 28, 300  # 2.3 hours at 16 kHz, plus a multiple of the file; speech in opus reaches about 130


def most_bytes(source: Path) -> int:
    """Return the greatest number of bytes that a program may produce from a file.

    Raises:
        ConfigError: The environment variable is not a whole number.
    """
    if value := os.environ.get(VARIABLE):
        if not value.isdecimal():
            raise ConfigError(f"environment variable {VARIABLE}: must be a whole number of MB, but is {value!r}")
        return int(value) * 10**6
    return _ALWAYS + _RATIO * source.stat().st_size


def too_large(limit: int) -> str:
    """Describe a file from which more is produced than allowed, with advice."""
    return f"holds more than {limit / 1e6:.0f} MB of samples; check it, or set {VARIABLE} to a larger limit"
