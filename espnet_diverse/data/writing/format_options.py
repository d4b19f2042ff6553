"""Options of writing the sets of a corpus as training reads them."""

from dataclasses import dataclass

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import ConfigError


@dataclass(frozen=True)
class FormatOptions:
    """Options of preparing sets.

    Attributes:
        speeds: Speed factors of the training set (Kaldi's 0.9 1.0 1.1); other sets keep speed 1. A factor other than 1
            makes new utterances and speakers whose ids begin with `sp<factor>-`.
        min_seconds: Shorter utterances are dropped.
        max_seconds: Longer utterances are dropped.
        audio_format: What is written: wav or flac, a file for each utterance; or ark, all utterances as flac in arks.
        rate: Sampling rate of the files in Hz.
        shards: Number of arks of a set; fewer where a set has fewer recordings.

    Raises:
        ConfigError: A value is out of range.
    """

    speeds: tuple[float, ...] = (1.0,)
    min_seconds: float = 0.1
    max_seconds: float = 20.0
    audio_format: str = "wav"
    rate: int = RATE
    shards: int = 1

    def __post_init__(self) -> None:
        if not self.speeds or len(set(self.speeds)) < len(self.speeds) or not all(0.5 <= s <= 2 for s in self.speeds):
            given = " ".join(f"{speed:g}" for speed in self.speeds)
            raise ConfigError(f"speed factors {given!r}: must be different numbers from 0.5 to 2, such as 0.9 1.0 1.1")
        if not 0 < self.min_seconds < self.max_seconds:
            limits = f"{self.min_seconds:g} and {self.max_seconds:g}"
            raise ConfigError(f"limits of {limits} seconds: must be above 0, and the least below the greatest")
        if self.audio_format not in ("wav", "flac", "ark"):
            raise ConfigError(f"audio format {self.audio_format!r}: must be wav, flac or ark")
        if self.shards < 1 or self.shards > 1 and self.audio_format != "ark":
            raise ConfigError(f"{self.shards} shards: must be 1 or more, and 1 unless the audio format is ark")
        if not RATES[0] <= self.rate <= RATES[1]:
            raise ConfigError(f"rate of {self.rate} Hz: must be from {RATES[0]} to {RATES[1]}, such as 8000 or 16000")
