"""Limits of the requests of the page."""

from dataclasses import dataclass
from math import inf

from espnet_diverse.option_checks import Options, number


@dataclass(frozen=True)
class Limits(Options):
    """Limits of the requests of the page.

    Attributes:
        seconds: Maximum duration of a recording.
        megabytes: Maximum size of an uploaded file.
        characters: Maximum length of a text.
        waiting: Maximum number of requests that wait for the model, which serves one at a time.
    """

    seconds: float = number(120.0, above=0, below=inf, key="max_seconds")  # JSON has no infinity
    megabytes: float = number(20.0, above=0, below=inf, key="max_megabytes")
    characters: int = 5000
    waiting: int = 8

    @property
    def bytes(self) -> int:
        """Maximum size of an uploaded file in bytes."""
        return int(self.megabytes * 1e6)
