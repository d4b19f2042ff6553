"""Splitting a recording into segments of speech while it is read, in bounded memory.

A segment begins where speech is detected, ends at the first pause, and keeps some padding at both ends. Speech without
a pause is split at the quietest place of the second half of the longest allowed segment, where a word is least likely.

Detectors read 16 kHz. A recording of another rate is resampled for them, and its original samples are cut into frames
at the same times: frame i begins at sample i * FRAME * rate / 16000, rounded down.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, tee
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.resampling import RATE, resample_blocks
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.vad import FRAME, decibels

FRAME_SECONDS = FRAME / RATE
_HYSTERESIS = 0.15  # within speech the threshold is this much lower, as in silero-vad's own segmentation
_SMOOTHED_FRAMES = 5  # frames that the loudness is averaged over to find a quiet place


class SpeechChunk(NamedTuple):
    """A part of a recording: its start in seconds, and its samples (L,) float32 at `rate` Hz."""

    start: float
    samples: NDArray[np.float32]
    rate: int = RATE

    @property
    def end(self) -> float:
        """Its end in seconds."""
        return (round(self.start * self.rate) + len(self.samples)) / self.rate  # exactly where the next chunk may begin


class FrameLimits(NamedTuple):
    """Options of segmentation in frames.

    Attributes:
        longest: Greatest length of a segment.
        pause: Frames without speech that end a segment.
        padding: Frames kept before and after speech.
        min_speech: Least number of frames of speech in a segment.
        start_threshold, end_threshold: Least probability of a frame of speech, outside of speech and within.
    """

    longest: int
    pause: int
    padding: int
    min_speech: int
    start_threshold: float
    end_threshold: float

    @classmethod
    def of(cls, options: SegmentationOptions) -> "FrameLimits":
        """The limits of `options`."""
        pause = max(1, round(options.min_silence_seconds / FRAME_SECONDS))
        return cls(
            longest=int(min(options.max_seconds / FRAME_SECONDS, sys.maxsize)),  # it may be infinite
            pause=pause,
            padding=min(round(options.padding_seconds / FRAME_SECONDS), pause),
            min_speech=1 if options.vad == "none" else max(1, round(options.min_speech_seconds / FRAME_SECONDS)),
            start_threshold=options.threshold,
            end_threshold=max(options.threshold - _HYSTERESIS, 0.01),
        )


def split_speech(
    blocks: Iterable[NDArray[np.float32]], options: SegmentationOptions | None = None, rate: int = RATE
) -> Iterator[SpeechChunk]:
    """Split a recording into chunks of speech.

    Args:
        blocks: Samples of the recording in order, each block (L,) float32. Their sizes make no difference.
        options: Segmentation options; by default `SegmentationOptions()`.
        rate: Sampling rate of the recording in Hz.

    Yields:
        Chunks in the order of time, without overlap, each up to `options.max_seconds` long. Silence yields none.

    Raises:
        ConfigError: The detector is not installed.
    """
    options = options or SegmentationOptions()
    blocks = (block for block in blocks if len(block))
    if options.vad == "auto":
        head: list[NDArray[np.float32]] = []
        for block in blocks:
            head.append(block)
            if sum(map(len, head)) > options.max_seconds * rate:
                break
        else:
            if next(_split(head, options, rate), None) is not None:
                yield SpeechChunk(0.0, np.concatenate(head), rate)
            return
        blocks = chain(head, blocks)
    yield from _split(blocks, options, rate)


def _split(blocks: Iterable[NDArray[np.float32]], options: SegmentationOptions, rate: int) -> Iterator[SpeechChunk]:
    segmenter = _Segmenter(options, rate)
    for frame, probability in frames_of_speech(blocks, options, rate):
        yield from segmenter.add(frame, probability)
    yield from segmenter.finish()


def windows(
    blocks: Iterable[NDArray[np.float32]], rate: int, seconds: float, advance: Callable[[], float]
) -> Iterator[SpeechChunk]:
    """Windows of a recording, each of which begins where the one before it says.

    Args:
        blocks: Samples of the recording in order, each block (L,) float32.
        rate: Sampling rate of the recording in Hz.
        seconds: Length of a window; the last ones are shorter.
        advance: Called before the next window; returns the second of the last one at which it begins.
    """
    blocks, held, start, most = iter(blocks), np.zeros(0, np.float32), 0, round(seconds * rate)
    while True:
        while len(held) < most and (block := next(blocks, None)) is not None:
            held = np.concatenate([held, block])
        if not len(held):
            return
        yield SpeechChunk(start / rate, held[:most], rate)
        passed = round(min(advance(), seconds) * rate)
        start, held = start + passed, held[passed:]


def frames_of_speech(
    blocks: Iterable[NDArray[np.float32]], options: SegmentationOptions, rate: int
) -> Iterator[tuple[NDArray[np.float32], float]]:
    """Frames (L,) of a recording and the probability of speech in each; takes the same arguments as `split_speech`.

    A frame is yielded as soon as it was read and, where the rate is not 16 kHz, resampled.
    """
    original, heard = tee(blocks)  # holds no more blocks than resampling delays
    probabilities = _probabilities(resample_blocks(heard, rate), options)
    for frame in _frames(original, rate):
        # Resampling may round the last frame away, which then has few samples.
        yield frame, next(probabilities, 0.0)


def _probabilities(blocks: Iterable[NDArray[np.float32]], options: SegmentationOptions) -> Iterator[float]:
    """Probability of speech in each frame of blocks at 16 kHz; the last frame is padded with zeros."""
    detect, remainder = options.detector(), np.zeros(0, np.float32)
    for block in blocks:
        remainder = np.concatenate([remainder, block])
        complete = len(remainder) // FRAME * FRAME
        if complete:
            yield from detect(remainder[:complete].reshape(-1, FRAME))
            remainder = remainder[complete:]
    if len(remainder):
        yield from detect(np.pad(remainder, (0, FRAME - len(remainder)))[None])


def _frames(blocks: Iterable[NDArray[np.float32]], rate: int) -> Iterator[NDArray[np.float32]]:
    """Frames (L,) of the recording; the last one may be shorter."""
    remainder, index = np.zeros(0, np.float32), 0
    for block in blocks:
        remainder = np.concatenate([remainder, block])
        while (size := _first_sample(index + 1, rate) - _first_sample(index, rate)) <= len(remainder):
            yield remainder[:size]
            remainder, index = remainder[size:], index + 1
    if len(remainder):
        yield remainder


def _first_sample(frame: int, rate: int) -> int:
    return frame * FRAME * rate // RATE


class _Segmenter:
    """Receives the frames of a recording one by one and emits chunks.

    It holds the frames since the end of the last chunk; outside of speech, only as many as the padding.
    """

    def __init__(self, options: SegmentationOptions, rate: int):
        self.rate, self.limits = rate, FrameLimits.of(options)
        self.frames: list[NDArray[np.float32]] = []
        self.is_speech: list[bool] = []
        self.first = 0  # index of the first frame held
        self.in_speech = self.continues = False

    def add(self, frame: NDArray[np.float32], probability: float) -> Iterator[SpeechChunk]:
        """Add the next frame; yield the chunk that it ends, if any."""
        if len(self.frames) >= self.limits.longest:
            yield from self._emit(self._quietest())
            self.in_speech = self.continues = any(self.is_speech)
        speech = bool(probability >= (self.limits.end_threshold if self.in_speech else self.limits.start_threshold))
        self.frames.append(frame)
        self.is_speech.append(speech)
        self.in_speech = self.in_speech or speech
        if self.in_speech and self._silent() >= self.limits.pause:
            yield from self._emit(len(self.frames) - self._silent() + self.limits.padding)
            self.in_speech = self.continues = False
        if not self.in_speech:
            self._drop(len(self.frames) - self.limits.padding)

    def finish(self) -> Iterator[SpeechChunk]:
        """Yield the chunk at the end of the recording, if any."""
        if self.in_speech:
            yield from self._emit(len(self.frames) - self._silent() + self.limits.padding)

    def _emit(self, count: int) -> Iterator[SpeechChunk]:
        start, speech = _first_sample(self.first, self.rate), sum(self.is_speech[:count])
        samples = np.concatenate(self.frames[:count])
        self._drop(count)
        # What follows speech that was split for its length is no click, however short.
        if speech >= (1 if self.continues else self.limits.min_speech):
            yield SpeechChunk(start / self.rate, samples, self.rate)

    def _drop(self, count: int) -> None:
        count = min(max(count, 0), len(self.frames))
        del self.frames[:count], self.is_speech[:count]
        self.first += count

    def _silent(self) -> int:
        """Number of frames since the last frame of speech."""
        return next((index for index, speech in enumerate(reversed(self.is_speech)) if speech), len(self.is_speech))

    def _quietest(self) -> int:
        """Number of frames before the quietest place of the second half."""
        shortest = min(map(len, self.frames))  # frames may differ by a sample, depending on the rate
        levels = decibels(np.stack([frame[:shortest] for frame in self.frames]))
        smooth = np.convolve(levels, np.ones(_SMOOTHED_FRAMES), mode="same")
        half = len(smooth) // 2
        return half + int(np.argmin(smooth[half:]))
