"""Transcription of many recordings in batches, so that none changes the result of another.

The last digits of sums in a batch depend on its content. A recording that fits into a window therefore joins the others
only after it was read to its end without a fault, and a longer recording has separate batches: a recording that cannot
be read has no effect on others. No more than two windows of features are in memory at any time.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import batched, chain, islice
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.sources import Audio, open_audio
from espnet_diverse.decoding.condition_ids import KnownConditions, completed, indices_of, warn_of_unused
from espnet_diverse.decoding.frame_times import FrameTimes, frame_times
from espnet_diverse.decoding.grouping import each_result, grouped
from espnet_diverse.decoding.options import SAME_LANGUAGE_TASKS, SearchOptions
from espnet_diverse.decoding.predictor import Prediction, Predictor
from espnet_diverse.decoding.search.hotwords import Hotwords
from espnet_diverse.decoding.search.timestamps import check_timed, parts_between
from espnet_diverse.transcription.alignment import align_segment, check_aligns
from espnet_diverse.transcription.language_id import first_seconds, identify_language, spoken_conditions
from espnet_diverse.transcription.result import Alternative, Segment
from espnet_diverse.transcription.segmentation import SpeechChunk, split_speech, windows
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.transcript import Request, Transcript
from espnet_diverse.transcription.unsegmented import check_whole, input_of_whole, stays_whole
from espnet_diverse.upstream.layers import TooShortUttError

log = logging.getLogger(__name__)

_WINDOW = 4  # batches
_LANGUAGE_SECONDS = 30.0  # of speech, used to detect a language


class _Chunk(NamedTuple):
    """A chunk of speech to decode.

    Attributes:
        recording: Recording that contains the chunk.
        start, end: Begin and end of the chunk in seconds.
        features: Features of the chunk (T, F); for a long recording, the input of `Predictor.find_long`.
        covered: Length of the chunk and of the pause before it in seconds, added to the progress once it is decoded.
    """

    recording: "_Recording"
    start: float
    end: float
    features: NDArray[np.float32]
    covered: float


@dataclass
class _Recording:
    """The state of a recording.

    Attributes:
        waiting: Start times of chunks that were read and not yet decoded.
        following: Chunks to read once the last one was decoded.
        passed: Second of the last window at which the next one begins.
        told: Number of segments passed to `on_segments`.
    """

    request: Request
    conditions: dict[str, str] = field(default_factory=dict)
    indices: dict[str, int] = field(default_factory=dict)
    language: str | None = None
    probabilities: dict[str, float] | None = None
    segments: list[Segment] = field(default_factory=list)
    duration: float = 0.0
    covered: float = 0.0
    waiting: set[float] = field(default_factory=set)
    following: Iterator["_Chunk"] | None = None
    passed: float = inf
    told: int = 0
    is_read: bool = False
    failure: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.failure is not None or self.is_read and not self.waiting

    @contextmanager
    def keeping_faults(self) -> Iterator[None]:
        """Make the first exception of a block the result of the recording; it must not stop other recordings."""
        try:
            yield
        except Exception as error:
            self.failure = self.failure or error

    def next_chunk(self) -> list[_Chunk]:
        """The chunk to decode after the last one, if there is one."""
        chunks: list[_Chunk] = []
        if self.following is not None and self.failure is None:
            with self.keeping_faults():
                chunks = list(islice(self.following, 1))
            if not chunks:
                self.is_read, self.following = True, None
                self.report()
        return chunks

    def report(self, covered: float = 0.0) -> None:
        """Add seconds that are done, and call `on_progress`."""
        self.covered = self.duration if self.is_done else self.covered + covered
        if self.request.on_progress is not None:
            self.request.on_progress(self.covered, self.duration)

    def tell(self) -> None:
        """Call `on_segments` with the new segments before which no chunk waits to be decoded."""
        if self.request.on_segments is None or self.failure is not None:
            return
        first = min(self.waiting, default=inf)
        before = [segment for segment in self.segments if segment.start < first]
        if new := sorted(before, key=_start)[self.told :]:
            self.told = len(before)
            self.request.on_segments(new)

    def handed_over(self) -> list[Segment]:
        """Return the segments so far in the order of time, and remove them here."""
        segments, self.segments, self.told = self.segments, [], 0
        return sorted(segments, key=_start)

    def result(self) -> Transcript | Exception:
        if self.failure is not None:
            return self.failure
        segments = tuple(sorted(self.segments, key=_start))
        return Transcript(segments, self.duration, self.conditions, self.probabilities, self.language)


class Transcription:
    """Transcribes recordings by one search.

    Args:
        search: Search with a model of speech recognition or speech translation.
        segmentation: Options of splitting recordings into segments of speech.
        word_timestamps: Whether transcripts get words with times and confidences.
        options: Search options; by default, the options that the model was loaded with.
        hotwords: Phrases that get a bonus, instead of the phrases that the model was loaded with.

    Attributes:
        window: Number of segments, of one recording or several, that are sorted into batches together.

    Raises:
        ConfigError: Word times are requested and the model has neither CTC nor heads that align; the search has no
            hotwords; or see `check_whole`.
        DataError: The hotwords cannot be read, see `read_hotwords`.
        ModelError: Word times are requested and the model's frontend has no hop length; or see `check_whole`.
    """

    def __init__(
        self,
        search: Predictor,
        segmentation: SegmentationOptions,
        word_timestamps: bool = False,
        options: SearchOptions | None = None,
        hotwords: Hotwords | None = None,
    ):
        assert search.rate is not None  # it reads audio
        self.hotwords, self.rate = search.hotwords_of(hotwords), search.rate
        self.search, self.segmentation, self.options = search, segmentation, search.resolve(options)
        self.window = _WINDOW * self.options.batch_size
        self.timed = segmentation.vad == "whisper"
        if self.timed:
            check_timed(search.times, self.options, word_timestamps)
        self.segmentation = replace(segmentation, max_seconds=min(segmentation.max_seconds, search.seconds))
        self.whole = stays_whole(search, segmentation, word_timestamps)
        self.frames: FrameTimes | None = None
        check_whole(search, self.segmentation, word_timestamps, self.options)
        if word_timestamps:
            check_aligns(search)
            self.frames = frame_times(search.encoding.model, self.rate)
        by_decoder = self.options.search != "greedy" and self.options.ctc_weight != 1  # else CTC supports its own texts
        self.has_support = search.ctc is not None and by_decoder and not self.timed
        self.posteriors = search.ctc is not None and (word_timestamps or self.has_support)
        self.spans = word_timestamps and search.ctc is None

    def __call__(self, requests: Iterable[Request]) -> Iterator[Transcript | Exception]:
        """Yield one result for each request, in order, as soon as it and all earlier ones are done."""
        window: list[_Chunk] = []
        pending: deque[_Recording] = deque()
        for request in requests:
            pending.append(_Recording(request))
            window += self._read(pending[-1], self._decode)
            if len(window) >= self.window:
                self._decode(window)
                window = []
            while pending and pending[0].is_done:
                yield pending.popleft().result()
        self._decode(window)
        yield from (recording.result() for recording in pending)

    def segments(self, request: Request) -> Iterator[Segment]:
        """Yield the segments of one recording in order, a batch as soon as it is decoded.

        Scores may differ in their last digits from the results of `__call__`, because the batches differ.

        Raises:
            DataError: The recording cannot be read, or a language or domain is unknown or missing.
        """
        recording = _Recording(request)
        with self._opened(request) as audio:
            recording.duration = audio.duration
            recording.report()
            chunks = self._chunks(recording, audio)
            beginning = self._begin(recording, chunks, 1 if self.timed else self.window, detect=True)
            for batch in batched(chain(beginning, chunks), 1 if self.timed else self.options.batch_size):
                self._decode(batch)
                if recording.failure is not None:
                    raise recording.failure
                yield from recording.handed_over()
            recording.is_read = True
            recording.report()
            warn_of_channels(audio)

    def count(self, request: Request) -> int:
        """Number of segments that a recording adds to the window of `window` segments; the model is not run.

        It is 0 for a recording that has separate windows, and for one that cannot be read.
        """
        return len(self._read(_Recording(request), decode=lambda chunks: None, detect=False))

    def _read(self, recording: _Recording, decode: Callable[[list[_Chunk]], None], detect: bool = True) -> list[_Chunk]:
        """Read a recording and return its chunks, to be decoded with other recordings; detect its language if needed.

        A recording longer than its window is passed to `decode` here. For it, and for one that cannot be read, no
        chunks are returned.
        """
        request = recording.request
        window = 1 if self.timed else self.window if request.on_segments is None else self.options.batch_size
        try:
            with self._opened(request) as audio:
                recording.duration = audio.duration
                recording.report()
                chunks = self._chunks(recording, audio)
                read = self._begin(recording, chunks, window, detect)
                if self.timed and read and audio.duration <= self.search.seconds:  # it is in memory
                    recording.following = chunks
                elif len(read) >= window or any(map(self._is_long, read)):
                    while read:
                        decode(read)
                        read = list(islice(chunks, window if recording.failure is None else 0))
                recording.is_read = recording.following is None
                recording.report()
                if detect:
                    warn_of_channels(audio)
        except Exception as error:  # of any kind: it must not stop the other recordings
            recording.failure = error
            return []
        return read

    def _opened(self, request: Request) -> AbstractContextManager[Audio]:
        return open_audio(request.audio, request.rate, self.rate, complete=False, channel=request.channel)

    def _chunks(self, recording: _Recording, audio: Audio) -> Iterator[_Chunk]:
        if self.whole and audio.duration > self.segmentation.max_seconds:
            recording.waiting.add(0.0)
            long_features = input_of_whole(self.search, audio, self.segmentation, self.options)
            yield _Chunk(recording, 0.0, audio.duration, long_features, audio.duration)
            return
        before = 0.0
        for chunk in self._segments(recording, audio):
            try:
                features = self.search.features(chunk.samples)
            except TooShortUttError:  # no word fits into it
                continue
            recording.waiting.add(chunk.start)
            yield _Chunk(recording, chunk.start, chunk.end, features, chunk.end - before)
            before = chunk.end

    def _segments(self, recording: _Recording, audio: Audio) -> Iterable[SpeechChunk]:
        if self.timed:
            short = audio.duration <= self.search.seconds
            blocks = [audio.samples()] if short else audio.blocks()
            return windows(blocks, self.rate, self.search.seconds, lambda: recording.passed)
        if self.segmentation.whole:
            samples = audio.samples()
            return [SpeechChunk(0.0, samples, self.rate)] if len(samples) else []
        return split_speech(audio.blocks(), self.segmentation, self.rate)

    def _is_long(self, chunk: _Chunk) -> bool:
        """Return whether a chunk is a long recording that was not split."""
        return self.whole and chunk.end - chunk.start > self.segmentation.max_seconds

    def _begin(self, recording: _Recording, chunks: Iterator[_Chunk], window: int, detect: bool) -> list[_Chunk]:
        """Read the first window of a recording and complete its conditions, with its language detected if `detect`.

        If the language is unknown and the window has less speech than detection uses, more is read.
        """
        beginning = list(islice(chunks, window))
        known, requested = self.search.conditions, recording.request.conditions
        same = self._has_same_language(requested)
        warn_of_unused(known, requested, same, self.search.warned)
        recording.conditions = completed(known, requested, same)
        recording.language = self._spoken(recording.conditions, same) or self._spoken(requested, same)
        if not beginning:
            return beginning
        spoken = spoken_conditions(self.search)
        if any(condition not in recording.conditions for condition in spoken):
            remaining = KnownConditions(
                {condition: names for condition, names in known.names.items() if condition not in spoken}
            )
            indices = indices_of(remaining, recording.conditions)  # raises before time is spent on detection
            heard = sum(chunk.end - chunk.start for chunk in beginning)
            while not self.timed and heard < _LANGUAGE_SECONDS and (next_chunk := next(chunks, None)) is not None:
                beginning.append(next_chunk)
                heard += next_chunk.end - next_chunk.start
            if not detect:
                return beginning
            heard_first = first_seconds(((one.features, one.end - one.start) for one in beginning), _LANGUAGE_SECONDS)
            recording.probabilities = identify_language(self.search, heard_first, indices, self.options)
            language = dict.fromkeys(spoken, next(iter(recording.probabilities)))
            recording.conditions = completed(known, language | dict(requested), same)
            recording.language = self._spoken(recording.conditions, same)
        recording.indices = indices_of(known, recording.conditions)
        return beginning

    def _has_same_language(self, requested: Mapping[str, str]) -> bool:
        """Return whether the text is in the spoken language; some models also translate into a target language."""
        return self.search.task in SAME_LANGUAGE_TASKS and not (self.search.translates and "tgtlang" in requested)

    def _spoken(self, names: Mapping[str, str], same_language: bool) -> str | None:
        """The spoken language among values by condition, None if the model detects it."""
        language = names.get("lang") or (names.get("tgtlang") if same_language else None)
        return None if language == getattr(self.search.prompt, "no_language", None) else language

    def _decode(self, chunks: Sequence[_Chunk]) -> None:
        """Decode chunks, and those that follow once they are decoded, and add the results to their recordings."""
        size, frames = self.options.batch_size, self.search.batch_frames
        while chunks:
            for batch in grouped(chunks, lambda chunk: len(chunk.features), size, frames):
                if any(chunk.recording.failure is None for chunk in batch):
                    self._decode_batch(batch)
            chunks = [after for chunk in chunks for after in chunk.recording.next_chunk()]

    def _decode_batch(self, batch: Sequence[_Chunk]) -> None:
        for chunk, result in zip(batch, each_result(self._search_batch, batch), strict=True):
            chunk.recording.waiting.remove(chunk.start)
            with chunk.recording.keeping_faults():
                chunk.recording.segments += self._timed(chunk, result) if self.timed else [self._segment(chunk, result)]
            with chunk.recording.keeping_faults():
                chunk.recording.report(chunk.covered)
                chunk.recording.tell()

    def _search_batch(self, batch: Sequence[_Chunk]) -> list[Prediction]:
        conditions = [chunk.recording.indices for chunk in batch]
        if self._is_long(batch[0]):  # long recordings are decoded alone
            return [self.search.find_long(batch[0].features, conditions[0])]
        return self.search.find(
            [chunk.features for chunk in batch],
            conditions,
            self.options,
            self.posteriors,
            self.hotwords,
            self.spans,
            self.timed,
        )

    def _timed(self, chunk: _Chunk, result: Prediction | Exception) -> list[Segment]:
        """Segments of a window between the times that the decoder wrote."""
        window = self._segment(chunk, result)
        indices, length = self.search.tokens.indices(window.tokens), chunk.end - chunk.start
        parts, chunk.recording.passed = parts_between(indices, self.search.times, length)
        segments = []
        for part in parts:
            text, tokens, _ = self.search.tokens.decode(part.tokens, window.score)
            begin, end = (round(chunk.start + second, 3) for second in (part.start, part.end))
            alternatives = (Alternative(text, window.score),)
            segments.append(Segment(begin, end, text, window.score, tuple(tokens), alternatives=alternatives))
        return [segment for segment in segments if segment.text.strip()]

    def _segment(self, chunk: _Chunk, result: Prediction | Exception) -> Segment:
        if isinstance(result, Exception):
            raise result
        if not result.texts:
            return Segment(chunk.start, chunk.end, "", float("-inf"))
        text, tokens, score = result.texts[0]
        segment = Segment(chunk.start, chunk.end, text, score, tuple(tokens))
        texts = tuple(Alternative(alternative.text, alternative.score) for alternative in result.texts)
        aligned = align_segment(self.search, segment, result, self.frames, self.has_support)
        return replace(aligned, alternatives=texts)


def warn_of_channels(audio: Audio) -> None:
    """Log that the channels of a recording have little in common, of which the mean was read."""
    if audio.powers.differ:
        reason = "channels that differ, as in a call with a speaker a channel, and their mean is transcribed"
        log.warning("notice: %s: has %s; transcribe --channels each or speakers separates them", audio.name, reason)


def _start(segment: Segment) -> float:
    return segment.start
