"""Options of splitting recordings into segments of speech."""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from espnet_diverse.errors import ConfigError

if TYPE_CHECKING:
    from espnet_diverse.transcription.vad import Detector

VADS = ("auto", "silero", "energy", "none")


@dataclass(frozen=True)
class SegmentationOptions:
    """Options of splitting recordings into segments of speech.

    Attributes:
        vad: Voice activity detection. "silero": the network of the extra `vad`. "energy": loudness. "none": no
            detection; recordings are split by length alone. "auto": silero if it is installed, else energy; a recording
            of up to `max_seconds` that contains speech stays whole, so that it gives the result of decoding its file.
        max_seconds: Greatest length of a segment in seconds.
        min_speech_seconds: Least amount of speech in a segment, in seconds; shorter sounds are taken for clicks.
        min_silence_seconds: Seconds without speech that end a segment.
        padding_seconds: Seconds kept before and after speech; at most `min_silence_seconds` and half of `max_seconds`.
        threshold: Probability of speech above which a frame counts as speech.
        whole: Whether no recording is split. One that is longer than `max_seconds` is decoded by greedy CTC, and its
            encoder must have attention of linear cost, or a memory.

    Raises:
        ConfigError: A value is out of range.
    """

    vad: str = "auto"
    max_seconds: float = 20.0
    min_speech_seconds: float = 0.1
    min_silence_seconds: float = 0.5
    padding_seconds: float = 0.2
    threshold: float = 0.5
    whole: bool = False

    def __post_init__(self):
        if self.vad not in VADS:
            raise ConfigError(f"vad {self.vad!r} is unknown; known: {' '.join(VADS)}")
        if self.whole and self.vad != "auto":
            raise ConfigError(f"vad {self.vad} splits recordings, which no_segmentation forbids; leave out one of them")
        ranges = {
            "max_seconds": (1, inf),
            "min_speech_seconds": (0, 1),
            "min_silence_seconds": (0.1, 10),
            "padding_seconds": (0, min(self.min_silence_seconds, self.max_seconds / 2)),
            "threshold": (0.05, 1),
        }
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"{name} {value} is not allowed; it must lie between {least} and {most}")

    def detector(self) -> "Detector":
        """Return a new detector, for one recording.

        Raises:
            ConfigError: The detector is not installed.
        """
        from espnet_diverse.transcription.vad import EnergyDetector, NoDetector, SileroDetector, silero_is_installed

        if self.vad == "none":
            return NoDetector()
        silero = self.vad == "silero" or self.vad == "auto" and silero_is_installed()
        return SileroDetector() if silero else EnergyDetector()
