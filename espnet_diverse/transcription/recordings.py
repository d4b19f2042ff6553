"""Transcribing recordings, many at a time, so that none changes what another gives.

Sums in a batch depend on what is in it, down to the last digit. So a recording that is read within a window joins the
others only once it has been read to its end without a fault, and the batches of a longer one are its own: a recording
that cannot be read leaves no trace. No more than two windows of features are in memory at any time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from numpy.typing import NDArray

from espnet_diverse.audio.stream import Source, open_audio
from espnet_diverse.decoding.condition_ids import KnownConditions, completed, indices_of, warn_of_unused
from espnet_diverse.decoding.grouping import each_result, grouped
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import Prediction, Predictor
from espnet_diverse.transcription.alignment import check_ctc, frame_times, timed
from espnet_diverse.transcription.language_id import find_language, spoken_conditions
from espnet_diverse.transcription.result import Alternative, Segment, Transcript
from espnet_diverse.transcription.segmentation import Cutting, Stretch, stretches

_WINDOW = 4  # batches
_LISTENED = 30.0  # seconds by which a language is found


@dataclass(frozen=True)
class Request:
    """A recording that is to be transcribed.

    Attributes:
        audio, rate: As of `open_audio`.
        conditions: Name by condition, such as {"lang": "es", "domain": "talks"}, of what is known of it.
        hear: Told how far the work is: the seconds of the recording that are done, and those that it lasts.
    """

    audio: Source
    rate: int | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    hear: Callable[[float, float], None] | None = field(default=None, compare=False)


class _Piece(NamedTuple):
    """A stretch of a recording that is to be searched: from when to when, its features (T, F), and how many seconds of
    the recording are done with it, which are its own and those of the pause before it."""

    recording: "_Recording"
    start: float
    end: float
    features: NDArray
    covered: float


@dataclass
class _Recording:
    """What is known so far of a recording; `waiting` counts pieces that were read and not yet searched."""

    request: Request
    conditions: dict[str, str] = field(default_factory=dict)
    indices: dict[str, int] = field(default_factory=dict)
    language: str | None = None
    probabilities: dict[str, float] | None = None
    segments: list[Segment] = field(default_factory=list)
    duration: float = 0.0
    covered: float = 0.0
    waiting: int = 0
    is_read: bool = False
    failure: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.failure is not None or self.is_read and not self.waiting

    def tell(self, covered: float = 0.0) -> None:
        """Note seconds that are done, and say so to who wants to know."""
        self.covered = self.duration if self.is_done else self.covered + covered
        if self.request.hear is not None:
            self.request.hear(self.covered, self.duration)

    def result(self) -> Transcript | Exception:
        if self.failure is not None:
            return self.failure
        segments = tuple(sorted(self.segments, key=lambda segment: segment.start))
        return Transcript(segments, self.duration, self.conditions, self.probabilities, self.language)


class Transcription:
    """Transcribes recordings by one search.

    Args:
        search: Of speech recognition or speech translation.
        cutting: How recordings are cut into stretches of speech.
        word_timestamps: Whether words are wanted, with times and confidences.
        options: Search options; by default those that the model was loaded with.

    Raises:
        ConfigError: There are no word times without CTC.
        ModelError: There are none with the model's frontend.
    """

    def __init__(
        self, search: Predictor, cutting: Cutting, word_timestamps: bool = False, options: Options | None = None
    ):
        self.search, self.cutting, self.options = search, cutting, search.resolve(options)
        self.window = _WINDOW * self.options.batch_size
        self.same_language = search.task == "asr"
        self.warned: dict[str, str] = {}
        self.frames = None
        if word_timestamps:
            check_ctc(search.ctc)
            self.frames = frame_times(search.encoding.model)

    def __call__(self, requests: Iterable[Request]) -> Iterator[Transcript | Exception]:
        """One result for each request, in order, as soon as it and those before it are there."""
        window: list[_Piece] = []
        pending: deque[_Recording] = deque()
        for request in requests:
            pending.append(_Recording(request))
            window += self._read(pending[-1])
            if len(window) >= self.window:
                self._find(window)
                window = []
            while pending and pending[0].is_done:
                yield pending.popleft().result()
        self._find(window)
        yield from (recording.result() for recording in pending)

    def _read(self, recording: _Recording) -> list[_Piece]:
        """What is to be searched of a recording; nothing if it is long, and was searched here, or cannot be read."""
        request = recording.request
        try:
            with open_audio(request.audio, request.rate) as audio:
                recording.duration = audio.duration
                recording.tell()
                pieces = self._pieces(recording, stretches(audio.blocks(), self.cutting))
                read = list(islice(pieces, self.window))
                self._settle(recording, read)
                while len(read) == self.window:
                    self._find(read)
                    read = list(islice(pieces, self.window))
                    if len(read) < self.window:
                        self._find(read)
                        read = []
                recording.is_read = True
                recording.tell()
        except Exception as error:  # whatever it is, it must not cost the other recordings
            recording.failure = error
            return []
        return read

    def _pieces(self, recording: _Recording, found: Iterable[Stretch]) -> Iterator[_Piece]:
        before = 0.0
        for stretch in found:
            try:
                features = self.search.features(stretch.samples)
            except TooShortUttError:  # for anything to be said in it
                continue
            recording.waiting += 1
            yield _Piece(recording, stretch.start, stretch.end, features, stretch.end - before)
            before = stretch.end

    def _settle(self, recording: _Recording, beginning: Sequence[_Piece]) -> None:
        """Settle the conditions of a recording; its beginning may tell the language."""
        known, given = self.search.conditions, recording.request.conditions
        new = {condition: name for condition, name in given.items() if self.warned.get(condition) != name}
        self.warned |= new
        warn_of_unused(known, new, self.same_language)
        recording.conditions = completed(known, given, self.same_language)
        recording.language = self._spoken(recording.conditions) or self._spoken(given)
        if not beginning:
            return
        spoken = spoken_conditions(self.search)
        if any(condition not in recording.conditions for condition in spoken):
            others = KnownConditions(
                {condition: names for condition, names in known.names.items() if condition not in spoken}
            )
            indices = indices_of(others, recording.conditions)  # first, for an error here takes no time
            recording.probabilities = find_language(self.search, _first_seconds(beginning), indices, self.options)
            language = dict.fromkeys(spoken, next(iter(recording.probabilities)))
            recording.conditions = completed(known, language | dict(given), self.same_language)
            recording.language = self._spoken(recording.conditions)
        recording.indices = indices_of(known, recording.conditions)

    def _spoken(self, names: Mapping[str, str]) -> str | None:
        """The language that is spoken, by names by condition; what is recognised is in the language that is spoken."""
        return names.get("lang") or (names.get("tgtlang") if self.same_language else None)

    def _find(self, pieces: Sequence[_Piece]) -> None:
        """Search pieces; their recordings take what is found."""
        size, frames = self.options.batch_size, self.search.batch_frames
        for batch in grouped(pieces, lambda piece: len(piece.features), size, frames):
            for piece, found in zip(batch, each_result(self._searched, batch), strict=True):
                piece.recording.waiting -= 1
                try:
                    piece.recording.segments.append(self._segment(piece, found))
                except Exception as error:
                    piece.recording.failure = error
                piece.recording.tell(piece.covered)

    def _searched(self, batch: Sequence[_Piece]) -> list[Prediction]:
        conditions = [piece.recording.indices for piece in batch]
        features = [piece.features for piece in batch]
        return self.search.find(features, conditions, self.options, posteriors=self.frames is not None)

    def _segment(self, piece: _Piece, found: Prediction | Exception) -> Segment:
        if isinstance(found, Exception):
            raise found
        if not found.texts:
            return Segment(piece.start, piece.end, "", float("-inf"))
        text, tokens, score = found.texts[0]
        confidences, words = (), ()
        if self.frames is not None:
            ids = self.search.converter.tokens2ids(tokens)
            confidences, words = timed(found.log_probs, ids, tokens, self.frames, piece.start, piece.end)
        texts = tuple(Alternative(each.text, each.score) for each in found.texts)
        return Segment(piece.start, piece.end, text, score, tuple(tokens), confidences, words, texts)


def _first_seconds(pieces: Sequence[_Piece]) -> list[NDArray]:
    """Features of the first pieces, as many as hold what a language is found by."""
    seconds, some = 0.0, []
    for piece in pieces:
        if seconds < _LISTENED:
            some.append(piece.features)
            seconds += piece.end - piece.start
    return some
