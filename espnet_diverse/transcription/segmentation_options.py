"""Options of splitting recordings into segments of speech."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from espnet_diverse.option_checks import Options, choice, conflict, flag, must_be, number, read

if TYPE_CHECKING:
    from espnet_diverse.transcription.vad import Detector

VADS = ("auto", "silero", "energy", "none", "whisper")


@dataclass(frozen=True)
class SegmentationOptions(Options):
    """Options of splitting recordings into segments of speech.

    Attributes:
        vad: Voice activity detection. "silero": the network of the extra `vad`. "energy": loudness. "none": no
            detection; recordings are split by length alone. "whisper": no detection; a Whisper model reads windows of
            30 seconds, whatever `max_seconds` is, and segments have the times that it writes. "auto": silero if it is
            installed, else energy; a recording of up to `max_seconds` that contains speech stays whole, with the same
            result as decoding its file.
        max_seconds: Greatest length of a segment in seconds.
        min_speech_seconds: Least amount of speech in a segment, in seconds; shorter sounds are treated as clicks.
        min_silence_seconds: Seconds without speech that end a segment.
        padding_seconds: Seconds kept before and after speech; at most `min_silence_seconds` and half of `max_seconds`.
        threshold: Probability of speech above which a frame counts as speech.
        whole: Whether recordings are kept whole. Longer ones than `max_seconds` are decoded by greedy CTC, and the
            encoder must have attention of linear cost, or a memory.

    Raises:
        ConfigError: A value is out of range.
    """

    vad: str = choice(
        *VADS,
        help="voice activity detector: silero (extra vad), energy, none (split by length alone), whisper (times that a "
        "Whisper model writes), or auto: silero if it is installed, else energy; with auto, recordings of up to 20 s "
        "are not split, and OWSM-CTC splits none",
    )
    max_seconds: float = number(
        20.0, least=1, most=inf, metavar="SECONDS", help="greatest length of a segment in seconds"
    )
    min_speech_seconds: float = number(0.1, least=0, most=1)
    min_silence_seconds: float = number(
        0.5, least=0.1, most=10, metavar="SECONDS", help="seconds without speech that end a segment"
    )
    padding_seconds: float = number(0.2, least=0, metavar="SECONDS", help="seconds kept before and after speech")
    threshold: float = number(0.5, least=0.05, most=1)
    whole: bool = flag(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.whole and self.vad != "auto":
            raise conflict(self, "vad", "whole (--no_segmentation), for it splits recordings")
        most = min(self.min_silence_seconds, self.max_seconds / 2)
        if self.padding_seconds > most:
            raise must_be("padding_seconds", f"at most {most}", self.padding_seconds)

    def detector(self) -> "Detector":
        """Return a new detector, for one recording.

        Raises:
            ConfigError: The detector is not installed.
        """
        from espnet_diverse.transcription.vad import EnergyDetector, NoDetector, SileroDetector, silero_is_installed

        if self.vad in ("none", "whisper"):
            return NoDetector()
        silero = self.vad == "silero" or self.vad == "auto" and silero_is_installed()
        return SileroDetector() if silero else EnergyDetector()


def segmentation_of(options: SegmentationOptions | Mapping[str, Any] | None) -> SegmentationOptions:
    """Options of segmentation as a user gives them: all of them, some by name, or the defaults.

    Raises:
        ConfigError: An option is unknown or has a wrong value, or the detector is not installed.
    """
    if not isinstance(options, SegmentationOptions):
        options = read(SegmentationOptions, {} if options is None else options, "the segmentation")
    options.detector()  # raises before a model is loaded
    return options
