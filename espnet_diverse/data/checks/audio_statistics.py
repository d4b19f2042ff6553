"""Lengths, rates and levels of a data directory, gathered while it is checked."""

from array import array
from collections import Counter
from collections.abc import Mapping
from math import log10, nan

from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.data.checks.plausibility import Measures
from espnet_diverse.data.kaldi import DataTables, column

SILENCE = -120.0
"""Level in dBFS that stands for digital silence."""


class Survey:
    """Numbers about the content of a data directory that `find_faults` reads.

    Attributes:
        data: Its tables.
        rates: Number of recordings by sampling rate in Hz.
        seconds: Length of each utterance with audio.
    """

    def __init__(self) -> None:
        self.data, self.rates = DataTables(), Counter[int]()
        self.seconds: Mapping[str, float] = {}
        self._levels, self._clipped = array("d"), array("d")

    def add(self, info: AudioInfo | None, measures: Measures | None) -> None:
        """Add the next recording of wav.scp: its header and its samples, or None where they were not read."""
        if info is not None:
            self.rates[info.rate] += 1
        self._levels.append(nan if measures is None else 10 * log10(max(measures.power, 10 ** (SILENCE / 10))))
        self._clipped.append(nan if measures is None else measures.clipped)

    def levels(self) -> Mapping[str, float]:
        """Level of each recording whose samples were read: root mean square in dB below full scale (dBFS)."""
        return column(self.data.wav_scp, self._levels) if self._levels else {}

    def clipped(self) -> Mapping[str, float]:
        """Share of samples at full scale, for each recording whose samples were read."""
        return column(self.data.wav_scp, self._clipped) if self._clipped else {}
