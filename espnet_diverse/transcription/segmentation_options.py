"""Options of cutting recordings into stretches of speech."""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from espnet_diverse.errors import ConfigError

if TYPE_CHECKING:
    from espnet_diverse.transcription.vad import Detector

VADS = ("auto", "silero", "energy", "none")


@dataclass(frozen=True)
class Cutting:
    """How recordings are cut.

    Attributes:
        vad: What finds speech. "silero": the network of the extra `vad`. "energy": loudness. "none": nothing; cut by
            length alone. "auto": silero where it is installed, else energy; a recording of up to `longest` seconds
            stays whole if there is speech in it, so that it gives what decoding its file gives.
        longest: Seconds of a stretch at most.
        shortest: Seconds of speech that a stretch has at least; less is a click.
        pause: Seconds without speech that end a stretch.
        padding: Seconds kept before and after speech.
        threshold: From how likely a frame is speech.

    Raises:
        ConfigError: A value is not allowed.
    """

    vad: str = "auto"
    longest: float = 20.0
    shortest: float = 0.1
    pause: float = 0.5
    padding: float = 0.2
    threshold: float = 0.5

    def __post_init__(self):
        if self.vad not in VADS:
            raise ConfigError(f"vad {self.vad!r} is unknown; known: {' '.join(VADS)}")
        allowed = {"longest": (1, inf), "shortest": (0, 1), "pause": (0.1, 10), "threshold": (0.05, 1)}
        for name, (least, most) in {**allowed, "padding": (0, self.pause)}.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"{name} {value} is not allowed; it lies between {least} and {most}")

    def detector(self) -> "Detector":
        """A detector for one recording.

        Raises:
            ConfigError: It is not installed.
        """
        from espnet_diverse.transcription.vad import Always, Loudness, Silero, silero_is_installed

        if self.vad == "none":
            return Always()
        silero = self.vad == "silero" or self.vad == "auto" and silero_is_installed()
        return Silero() if silero else Loudness()
