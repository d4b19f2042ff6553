"""Limits of the length of utterances and texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import number

FRAMES_A_SECOND = 25
"""Frames of an encoder that subsamples features of 10 ms by 4; CTC needs one for each token."""


@dataclass(frozen=True)
class Limits:
    """Limits of the length of utterances and texts.

    Attributes:
        tokens: Function that returns the tokens of a text; without it only the number of characters is compared.
        frames: Number of frames a second that CTC has.

    Raises:
        ConfigError: The limits of the length exclude each other.
    """

    min_seconds: float = number(0.1, help="minimum length of an utterance")
    max_seconds: float = number(60.0, help="maximum length of an utterance")
    tokens: Callable[[str], Sequence[object]] | None = None
    frames: float = FRAMES_A_SECOND

    def __post_init__(self) -> None:
        if not 0 < self.min_seconds < self.max_seconds:
            raise ConfigError(f"--min_seconds {self.min_seconds:g} must be above 0 and below --max_seconds")
