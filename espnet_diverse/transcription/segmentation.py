"""Splitting a recording into segments of speech while it is read, in bounded memory.

A segment begins where speech is detected, ends at the first pause, and keeps some padding at both ends. Speech without
a pause is split at the quietest place of the second half of the longest allowed segment, where a word is least likely.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.vad import FRAME, decibels

_HYSTERESIS = 0.15  # within speech the threshold is this much lower, as in silero-vad's own segmentation
_SMOOTHED_FRAMES = 5  # frames that the loudness is averaged over to find a quiet place


class SpeechChunk(NamedTuple):
    """A part of a recording: its start in seconds, and its samples (L,) float32 at 16 kHz."""

    start: float
    samples: NDArray

    @property
    def end(self) -> float:
        """Its end in seconds."""
        return (round(self.start * RATE) + len(self.samples)) / RATE  # exactly where the next one may begin


def split_speech(blocks: Iterable[NDArray], options: SegmentationOptions | None = None) -> Iterator[SpeechChunk]:
    """Split a recording into chunks of speech.

    Args:
        blocks: Samples of the recording in order, each block (L,) float32 at 16 kHz. Their sizes make no difference.
        options: Segmentation options; the defaults where not given.

    Yields:
        Chunks in the order of time, without overlap, each up to `options.max_seconds` long. Silence yields none.

    Raises:
        ConfigError: The detector is not installed.
    """
    options = options or SegmentationOptions()
    blocks = (block for block in blocks if len(block))
    if options.vad == "auto":
        head: list[NDArray] = []
        for block in blocks:
            head.append(block)
            if sum(map(len, head)) > options.max_seconds * RATE:
                break
        else:
            if next(_split(head, options), None) is not None:
                yield SpeechChunk(0.0, np.concatenate(head))
            return
        blocks = chain(head, blocks)
    yield from _split(blocks, options)


def _split(blocks: Iterable[NDArray], options: SegmentationOptions) -> Iterator[SpeechChunk]:
    detect, segmenter, end = options.detector(), _Segmenter(options), 0
    for frames, samples in _frames(blocks):
        end += samples
        for frame, probability in zip(frames, detect(frames), strict=True):
            yield from segmenter.add(frame, probability)
    yield from segmenter.finish(end)


def _frames(blocks: Iterable[NDArray]) -> Iterator[tuple[NDArray, int]]:
    """Frames (n, FRAME) and their number of samples; the last frame is padded with zeros."""
    rest = np.zeros(0, np.float32)
    for block in blocks:
        rest = np.concatenate([rest, block])
        whole = len(rest) // FRAME * FRAME
        if whole:
            yield rest[:whole].reshape(-1, FRAME), whole
            rest = rest[whole:]
    if len(rest):
        yield np.pad(rest, (0, FRAME - len(rest)))[None], len(rest)


class _Segmenter:
    """Receives the frames of a recording one by one and emits chunks.

    It holds the frames since the end of the last chunk; outside of speech only those of the padding.
    """

    def __init__(self, options: SegmentationOptions):
        seconds = FRAME / RATE
        self.max_frames = int(options.max_seconds / seconds)
        self.pause = max(1, round(options.min_silence_seconds / seconds))
        self.padding = min(round(options.padding_seconds / seconds), self.pause)
        self.min_speech = 1 if options.vad == "none" else max(1, round(options.min_speech_seconds / seconds))
        self.start_threshold = options.threshold
        self.end_threshold = max(options.threshold - _HYSTERESIS, 0.01)
        self.frames: list[NDArray] = []
        self.is_speech: list[bool] = []
        self.first = 0  # index of the first frame held
        self.in_speech = self.continues = False

    def add(self, frame: NDArray, probability: float) -> Iterator[SpeechChunk]:
        """Add the next frame; yield the chunk that it ends, if any."""
        if len(self.frames) >= self.max_frames:
            yield from self._emit(self._quietest())
            self.in_speech = self.continues = any(self.is_speech)
        speech = bool(probability >= (self.end_threshold if self.in_speech else self.start_threshold))
        self.frames.append(frame)
        self.is_speech.append(speech)
        self.in_speech = self.in_speech or speech
        if self.in_speech and self._silent() >= self.pause:
            yield from self._emit(len(self.frames) - self._silent() + self.padding)
            self.in_speech = self.continues = False
        if not self.in_speech:
            self._drop(len(self.frames) - self.padding)

    def finish(self, end: int) -> Iterator[SpeechChunk]:
        """Yield the chunk at the end of a recording of `end` samples, if any."""
        if self.in_speech:
            yield from self._emit(len(self.frames) - self._silent() + self.padding, end)

    def _emit(self, count: int, end: int | None = None) -> Iterator[SpeechChunk]:
        start, speech = self.first * FRAME, sum(self.is_speech[:count])
        samples = np.concatenate(self.frames[:count])[: None if end is None else end - start]
        self._drop(count)
        # The rest of speech that was split for its length is no click, however short.
        if speech >= (1 if self.continues else self.min_speech):
            yield SpeechChunk(start / RATE, samples)

    def _drop(self, count: int) -> None:
        count = min(max(count, 0), len(self.frames))
        del self.frames[:count], self.is_speech[:count]
        self.first += count

    def _silent(self) -> int:
        """Number of frames since the last one of speech."""
        return next((index for index, speech in enumerate(reversed(self.is_speech)) if speech), len(self.is_speech))

    def _quietest(self) -> int:
        """Number of frames before the quietest place of the second half."""
        levels = np.convolve(decibels(np.stack(self.frames)), np.ones(_SMOOTHED_FRAMES), mode="same")
        half = len(levels) // 2
        return half + int(np.argmin(levels[half:]))
