"""Cutting a recording into the stretches in which somebody speaks, as it is read, in bounded memory.

A stretch begins where the detector is sure of speech, ends at the first pause, and keeps some padding at both ends.
Speech that goes on is cut at the quietest place of the last half of what is allowed, where a word is least likely.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.transcription.segmentation_options import Cutting
from espnet_diverse.transcription.vad import FRAME, decibels

_LESS_SURE = 0.15  # speech goes on at this much less than the threshold, as in silero-vad's own cutting
_SMOOTHED = 5  # frames over which a quiet place is looked for


class Stretch(NamedTuple):
    """A part of a recording: where it begins, in seconds, and its samples (L,) float32 at 16 kHz."""

    start: float
    samples: NDArray

    @property
    def end(self) -> float:
        """Where it ends, in seconds."""
        return (round(self.start * RATE) + len(self.samples)) / RATE  # exactly where the next one may begin


def stretches(blocks: Iterable[NDArray], cutting: Cutting | None = None) -> Iterator[Stretch]:
    """Cut a recording.

    Args:
        blocks: Its samples in order, each (L,) float32 at 16 kHz. How they are parted makes no difference.
        cutting: How; the defaults where not given.

    Yields:
        Stretches in the order of time, none overlapping the next, none longer than `cutting.longest`. None for silence.

    Raises:
        ConfigError: The detector is not installed.
    """
    cutting = cutting or Cutting()
    blocks = (block for block in blocks if len(block))
    if cutting.vad == "auto":
        head: list[NDArray] = []
        for block in blocks:
            head.append(block)
            if sum(map(len, head)) > cutting.longest * RATE:
                break
        else:
            if next(_cut(head, cutting), None) is not None:
                yield Stretch(0.0, np.concatenate(head))
            return
        blocks = chain(head, blocks)
    yield from _cut(blocks, cutting)


def _cut(blocks: Iterable[NDArray], cutting: Cutting) -> Iterator[Stretch]:
    detect, cutter, end = cutting.detector(), _Cutter(cutting), 0
    for frames, samples in _framed(blocks):
        end += samples
        for frame, probability in zip(frames, detect(frames), strict=True):
            yield from cutter.take(frame, probability)
    yield from cutter.finish(end)


def _framed(blocks: Iterable[NDArray]) -> Iterator[tuple[NDArray, int]]:
    """Frames (n, FRAME) and how many samples they hold; the last is filled up with zeros."""
    rest = np.zeros(0, np.float32)
    for block in blocks:
        rest = np.concatenate([rest, block])
        whole = len(rest) // FRAME * FRAME
        if whole:
            yield rest[:whole].reshape(-1, FRAME), whole
            rest = rest[whole:]
    if len(rest):
        yield np.pad(rest, (0, FRAME - len(rest)))[None], len(rest)


class _Cutter:
    """Takes the frames of a recording one by one and hands out stretches.

    It holds the frames from the end of the last stretch on; while nobody speaks, those of the padding alone.
    """

    def __init__(self, cutting: Cutting):
        seconds = FRAME / RATE
        self.longest = int(cutting.longest / seconds)
        self.pause = max(1, round(cutting.pause / seconds))
        self.padding = min(round(cutting.padding / seconds), self.pause)
        self.shortest = 1 if cutting.vad == "none" else max(1, round(cutting.shortest / seconds))
        self.surely, self.still = cutting.threshold, max(cutting.threshold - _LESS_SURE, 0.01)
        self.frames: list[NDArray] = []
        self.spoken: list[bool] = []
        self.first = 0  # index of the first frame held
        self.speaking = self.goes_on = False

    def take(self, frame: NDArray, probability: float) -> Iterator[Stretch]:
        """The next frame, and the stretch that it ends, if any."""
        if len(self.frames) >= self.longest:
            yield from self._emit(self._quietest())
            self.speaking = self.goes_on = any(self.spoken)
        spoken = bool(probability >= (self.still if self.speaking else self.surely))
        self.frames.append(frame)
        self.spoken.append(spoken)
        self.speaking = self.speaking or spoken
        if self.speaking and self._silent() >= self.pause:
            yield from self._emit(len(self.frames) - self._silent() + self.padding)
            self.speaking = self.goes_on = False
        if not self.speaking:
            self._drop(len(self.frames) - self.padding)

    def finish(self, end: int) -> Iterator[Stretch]:
        """The stretch at the end of a recording of `end` samples, if any."""
        if self.speaking:
            yield from self._emit(len(self.frames) - self._silent() + self.padding, end)

    def _emit(self, count: int, end: int | None = None) -> Iterator[Stretch]:
        start, spoken = self.first * FRAME, sum(self.spoken[:count])
        samples = np.concatenate(self.frames[:count])[: None if end is None else end - start]
        self._drop(count)
        # What is left of speech that was cut for its length is no click, however short.
        if spoken >= (1 if self.goes_on else self.shortest):
            yield Stretch(start / RATE, samples)

    def _drop(self, count: int) -> None:
        count = min(max(count, 0), len(self.frames))
        del self.frames[:count], self.spoken[:count]
        self.first += count

    def _silent(self) -> int:
        """Frames since the last one of speech."""
        return next((index for index, spoken in enumerate(reversed(self.spoken)) if spoken), len(self.spoken))

    def _quietest(self) -> int:
        """How many frames come before the quietest place of the second half."""
        levels = np.convolve(decibels(np.stack(self.frames)), np.ones(_SMOOTHED), mode="same")
        half = len(levels) // 2
        return half + int(np.argmin(levels[half:]))
