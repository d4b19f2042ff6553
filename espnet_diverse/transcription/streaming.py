"""Transcription of a stream while it is spoken: partial texts as they change, and the text of each utterance.

An utterance ends at a pause, see `endpointing.py`; the search then discards it. Memory is bounded by one utterance,
however long the stream is.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.live import BLOCK_SECONDS
from espnet_diverse.errors import ConfigError
from espnet_diverse.transcription.endpointing import UtterancePart, utterances
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

if TYPE_CHECKING:  # it imports modules that only streaming needs
    from espnet_diverse.decoding.streaming.block_search import BlockSearch


@dataclass(frozen=True)
class StreamResult:
    """A text of the current utterance, or the final text of an utterance.

    Attributes:
        text: The best text so far; later results of the same utterance may change any part of it.
        start, end: Begin and end, so far, of the speech of the utterance in the stream, in seconds.
        is_final: Whether the utterance has ended. The next result then belongs to another one.
        score: The log score of the text.
        heard: Seconds of the stream that were heard.
        computing: Seconds that the search took for the samples since its last call.
    """

    text: str
    start: float
    end: float
    is_final: bool
    score: float
    heard: float
    computing: float


def transcribe_stream(
    search: "BlockSearch",
    blocks: Iterable[NDArray[np.float32]],
    segmentation: SegmentationOptions | None = None,
    seconds: float = BLOCK_SECONDS,
) -> Iterator[StreamResult]:
    """Transcribe a stream.

    Args:
        search: Search with a model that streams.
        blocks: Samples of the stream in order, each block (L,) float32 at `search.rate`; it may never end.
        segmentation: Options of detecting utterances.
        seconds: Seconds of an utterance that are passed to the search at a time.

    Yields:
        A result whenever the text changes, and one at the end of each utterance that had a text.

    Raises:
        ConfigError: The voice activity detector is not installed, or another stream has begun with the search.
        Exceptions of `blocks`: raised after a final result for the current utterance.
    """
    source = _Source(blocks)
    search.reset()
    search.stream = stream = object()
    waiting: list[NDArray[np.float32]] = []
    text, had = "", False
    for part in utterances(source, segmentation or SegmentationOptions(), search.rate):
        waiting.append(part.samples)
        if not part.last and sum(map(len, waiting)) < seconds * search.rate:
            continue
        if search.stream is not stream:
            raise ConfigError("another stream has begun with this StreamRecognizer; make one for each stream")
        result = _result(search, np.concatenate(waiting), part)
        waiting.clear()
        had = had or bool(result.text)
        if result.text != text or part.last and had:
            yield result
        text, had = ("", False) if part.last else (result.text, had)
    if source.fault is not None:
        raise source.fault


class _Source:
    """The blocks of a stream; an exception ends them, and is kept until the last utterance has its text."""

    def __init__(self, blocks: Iterable[NDArray[np.float32]]):
        self.blocks = blocks
        self.fault: BaseException | None = None

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        try:
            yield from self.blocks
        except (Exception, KeyboardInterrupt) as error:  # the usual end of a microphone is an interrupt
            self.fault = error


def _result(search: "BlockSearch", samples: NDArray[np.float32], part: UtterancePart) -> StreamResult:
    begin = time.perf_counter()
    result = search.add(samples, part.last)
    computing = time.perf_counter() - begin
    text = result.text.strip() if part.last else result.text
    return StreamResult(text, part.start, part.end, part.last, result.score, part.heard, computing)


@dataclass
class Latencies:
    """Latencies of a stream, in seconds, where recognition keeps up with speech.

    Attributes:
        first: Of each utterance, from the beginning of its speech to its first text.
        final: Of each utterance, from the end of its speech to its final text. It includes the pause that ended it.
        heard: Seconds of the stream.
    """

    first: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    heard: float = 0.0
    _begun: bool = False

    def add(self, result: StreamResult) -> None:
        """Count the next result of a stream."""
        if result.text and not self._begun:
            self.first.append(result.heard - result.start + result.computing)
        self._begun = bool(result.text or self._begun) and not result.is_final
        if result.is_final:
            self.final.append(result.heard - result.end + result.computing)
        self.heard = result.heard

    def __str__(self) -> str:
        count = f"{len(self.final)} utterances"
        if not self.first or not self.final:
            return count
        first, final = median(self.first), median(self.final)
        return f"{count}; medians: first text {first:.2f} s after speech began, final text {final:.2f} s after it ended"
