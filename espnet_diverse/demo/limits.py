"""What the page takes at most."""

from dataclasses import dataclass

from espnet_diverse.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """Bounds of one request.

    Attributes:
        seconds: Of a recording.
        megabytes: Of an uploaded file.
        characters: Of a text that is to be translated.
        waiting: Requests that may wait for the model, which serves one at a time.
    """

    seconds: float = 120.0
    megabytes: float = 20.0
    characters: int = 5000
    waiting: int = 8

    def __post_init__(self):
        for name in ("seconds", "megabytes"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"--max_{name} {getattr(self, name):g} is no limit; give a number above 0")

    @property
    def bytes(self) -> int:
        """Of an uploaded file."""
        return int(self.megabytes * 1e6)
