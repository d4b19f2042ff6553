"""Utterances of a stream, found while they are spoken.

The detector and the options of `segmentation.py` decide where an utterance begins and ends, and its samples are the
same as of the segment that a recording would be split into. Samples are returned as soon as they certainly belong to
the utterance: speech once it is longer than a click, and a longer silence once speech follows it. An
utterance without a pause cannot be split at its quietest place, which may have passed; instead, from half of the
greatest length on, ever shorter pauses end it.
"""

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.transcription.segmentation import FRAME_SECONDS, FrameLimits, frames_of_speech
from espnet_diverse.transcription.segmentation_options import SegmentationOptions


class UtterancePart(NamedTuple):
    """The next part of an utterance.

    Attributes:
        samples: Its samples (L,) float32; empty where only the end was found.
        start, end: Begin and end so far of the speech of the utterance in the stream, in seconds.
        heard: Seconds of the stream that were heard.
        last: Whether the utterance ends with this part.
    """

    samples: NDArray[np.float32]
    start: float
    end: float
    heard: float
    last: bool


def utterances(
    blocks: Iterable[NDArray[np.float32]], options: SegmentationOptions, rate: int
) -> Iterator[UtterancePart]:
    """Find the utterances of a stream.

    Args:
        blocks: Samples of the stream in order, each block (L,) float32; the next one is read when all earlier ones were
            used.
        options: Options of segmentation; "auto" is silero if it is installed, else energy.
        rate: Sampling rate in Hz.

    Yields:
        Parts of utterances in order; the last part of each utterance is marked `last`. Silence yields none.

    Raises:
        ConfigError: The detector is not installed.
    """
    endpointer = _Endpointer(FrameLimits.of(options), rate)
    for frame, probability in frames_of_speech((block for block in blocks if len(block)), options, rate):
        yield from endpointer.add(frame, probability)
    yield from endpointer.finish()


class _Endpointer:
    """Receives the frames of a stream one by one, and holds frames that may not belong to an utterance."""

    def __init__(self, limits: FrameLimits, rate: int):
        self.limits, self.rate = limits, rate
        self.held: list[NDArray[np.float32]] = []
        self.heard = self.samples = 0  # frames and samples of the stream
        self.continues = False
        self._begin()

    def _begin(self) -> None:
        """Wait for the next utterance."""
        self.start = self.given = self.speech = self.silent = 0  # frames

    def add(self, frame: NDArray[np.float32], probability: float) -> Iterator[UtterancePart]:
        """Add the next frame; yield the parts that are now certain."""
        limits = self.limits
        is_speech = bool(probability >= (limits.end_threshold if self.speech else limits.start_threshold))
        self.held.append(frame)
        self.heard += 1
        self.samples += len(frame)
        if is_speech and not self.speech:
            self.start = self.heard - 1
        if not is_speech and not self.speech:
            self.silent += 1
            self.continues = self.continues and self.silent < limits.pause
            self._keep(limits.padding)
            return
        self.speech += is_speech
        self.silent = 0 if is_speech else self.silent + 1
        length = self.given + len(self.held)
        if self.silent >= self._pause(length) or length >= limits.longest:
            yield from self._end()
            self.continues = length >= limits.longest
        elif self._is_certain() and (count := self._belonging()):
            yield self._part(count, last=False)

    def finish(self) -> Iterator[UtterancePart]:
        """Yield the end of the utterance that the stream ends in, if any."""
        if self.speech:
            yield from self._end()

    def _pause(self, length: int) -> int:
        """Frames of silence that end an utterance of `length` frames."""
        return max(1, ceil(self.limits.pause * min(1.0, 2 * (1 - length / self.limits.longest))))

    def _is_certain(self) -> bool:
        # What follows speech that was ended for its length is no click, however short.
        return self.speech >= (1 if self.continues else self.limits.min_speech)

    def _belonging(self) -> int:
        """Number of held frames that belong to the utterance, whether speech follows or not."""
        return len(self.held) - max(0, self.silent - self.limits.padding)

    def _end(self) -> Iterator[UtterancePart]:
        if self._is_certain():
            yield self._part(self._belonging(), last=True)
        else:
            del self.held[: self._belonging()]  # a click, and the frames before it, are no padding of what follows
        self._keep(self.limits.padding)
        self._begin()

    def _part(self, count: int, last: bool) -> UtterancePart:
        samples = np.concatenate([np.zeros(0, np.float32), *self.held[:count]])
        del self.held[:count]
        self.given += count
        heard = self.samples / self.rate  # the last frame may be shorter
        start, end = self.start * FRAME_SECONDS, min((self.heard - self.silent) * FRAME_SECONDS, heard)
        return UtterancePart(samples, start, end, heard, last)

    def _keep(self, count: int) -> None:
        del self.held[: max(0, len(self.held) - count)]
