"""Options of writing the sets of a corpus as training reads them."""

from dataclasses import dataclass
from math import inf

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.option_checks import Options, choice, listed, must_be, needs, number

FEW = 10
"""Utterances of a set with faults, up to which their share is not checked."""


@dataclass(frozen=True)
class FormatOptions(Options):
    """Options of preparing sets.

    Attributes:
        speeds: Speed factors of the training set (Kaldi's 0.9 1.0 1.1); other sets keep speed 1. A factor other than 1
            makes new utterances and speakers whose ids begin with `sp<factor>-`.
        min_seconds: Shorter utterances are dropped.
        max_seconds: Longer utterances are dropped.
        audio_format: Files to write: wav or flac, one for each utterance; or ark, all utterances as flac in arks.
        rate: Sampling rate of the files in Hz.
        shards: Number of arks of a set; fewer where a set has fewer recordings.
        on_bad: For utterances with a fault, such as audio that cannot be used: "error", or "drop", which lists them.
        max_bad: Greatest share of the utterances of a set that are dropped because of faults; `FEW` always may be.

    Raises:
        ConfigError: A value is out of range.
    """

    speeds: tuple[float, ...] = listed((1.0,), of=number(1.0, least=0.5, most=2), key="speed_perturb")
    min_seconds: float = number(0.1, above=0)
    max_seconds: float = number(20.0, above=0, most=inf)
    audio_format: str = choice("wav", "flac", "ark")
    rate: int = number(RATE, least=RATES[0], most=RATES[1])
    shards: int = number(1, least=1)
    on_bad: str = choice("error", "drop")
    max_bad: float = number(0.01, least=0, most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.speeds)) < len(self.speeds):
            raise must_be("speed_perturb", "different numbers, such as 0.9 1.0 1.1", self.speeds)
        if self.min_seconds >= self.max_seconds:
            raise must_be("min_seconds", f"below max_seconds {self.max_seconds:g}", self.min_seconds)
        if self.shards > 1 and self.audio_format != "ark":
            raise needs(self, "shards", "audio_format ark")
