"""Options of writing the sets of a corpus as training reads them."""

from dataclasses import dataclass
from math import inf

from espnet_diverse.audio import RATE, RATES
from espnet_diverse.option_checks import Options, choice, listed, must_be, needs, number

FEW = 10
"""Utterances of a set with faults, up to which their share is not checked."""


@dataclass(frozen=True)
class FormatOptions(Options):
    """Options of preparing sets.

    Only the training set has other speeds than 1. A factor other than 1 makes new utterances and speakers whose ids
    begin with `sp<factor>-`. A set with fewer recordings than `shards` has fewer arks.

    Raises:
        ConfigError: A value is out of range.
    """

    speeds: tuple[float, ...] = listed(
        (1.0,),
        of=number(1.0, least=0.5, most=2),
        key="speed_perturb",
        help="speed factors of the training set, e.g. 0.9 1.0 1.1",
        shown="",
    )
    min_seconds: float = number(0.1, above=0, help="shorter utterances are dropped")
    max_seconds: float = number(20.0, above=0, most=inf, help="longer utterances are dropped")
    audio_format: str = choice(
        *("wav", "flac", "ark"),
        bare=True,
        help="format of audio that must be converted: wav or flac; or ark: all audio as flac in arks",
    )
    shards: int = number(1, least=1, metavar="N", help="number of arks of each set, for --audio_format ark")
    rate: int = number(RATE, least=RATES[0], most=RATES[1], help="sampling rate of the audio in Hz")
    on_bad: str = choice("error", "drop")
    max_bad: float = number(
        0.01,
        least=0,
        most=1,
        metavar="SHARE",
        help=f"maximum share of utterances of a set that --on_bad drop leaves out; {FEW} always may be",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.speeds)) < len(self.speeds):
            raise must_be("speed_perturb", "different numbers, such as 0.9 1.0 1.1", self.speeds)
        if self.min_seconds >= self.max_seconds:
            raise must_be("min_seconds", f"below max_seconds {self.max_seconds:g}", self.min_seconds)
        if self.shards > 1 and self.audio_format != "ark":
            raise needs(self, "shards", "audio_format ark")
