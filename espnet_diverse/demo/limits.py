"""Limits of the requests of the page."""

from dataclasses import dataclass
from math import inf

from espnet_diverse.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """Limits of the requests of the page.

    Attributes:
        seconds: Maximum duration of a recording.
        megabytes: Maximum size of an uploaded file.
        characters: Maximum length of a text.
        waiting: Maximum number of requests that wait for the model, which serves one at a time.

    Raises:
        ConfigError: A limit is not a finite number above 0.
    """

    seconds: float = 120.0
    megabytes: float = 20.0
    characters: int = 5000
    waiting: int = 8

    def __post_init__(self):
        for name in ("seconds", "megabytes"):
            if not 0 < getattr(self, name) < inf:  # JSON, in which the page gets the limits, has no infinity
                raise ConfigError(f"--max_{name} {getattr(self, name):g} is not allowed; give a finite number above 0")

    @property
    def bytes(self) -> int:
        """Maximum size of an uploaded file in bytes."""
        return int(self.megabytes * 1e6)
