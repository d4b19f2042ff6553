"""Transcripts. All times are in seconds from the beginning of the recording."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from espnet_diverse.data.scripts import join_texts
from espnet_diverse.decoding.options import INVENTED


@dataclass(frozen=True)
class Word:
    """A word, its start and end, and the confidence of the model, 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Alternative:
    """One of the n-best texts of a segment, and its log score."""

    text: str
    score: float


@dataclass(frozen=True)
class Segment:
    """A segment of speech that was decoded as a whole.

    Attributes:
        start, end: Begin and end of the segment.
        text: The best text; empty if nothing was recognised.
        score: The log score of the text.
        tokens: The tokens of the text.
        confidences: The confidence of the model in each token, 0 to 1; empty unless word times were requested.
        words: The words of the text; empty unless word times were requested.
        alternatives: The n-best texts, best first, including this one.
        speaker: The speaker, where turns are known; see `Transcript.with_speakers`.
        ctc_support: Share of the tokens that CTC supports, see `decoding/ctc_alignment.py`; None if the model has no
            CTC, or if CTC alone wrote the text.
    """

    start: float
    end: float
    text: str
    score: float
    tokens: tuple[str, ...] = ()
    confidences: tuple[float, ...] = ()
    words: tuple[Word, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    speaker: str = ""
    ctc_support: float | None = None

    @property
    def may_be_invented(self) -> bool:
        """Whether CTC supports less than a quarter of the tokens: the decoder may have written a text for noise."""
        return self.ctc_support is not None and self.ctc_support < INVENTED

    def word_positions(self) -> list[int] | None:
        """Position of each word in the text; None if there are no words or one is not in the text."""
        positions, position = [], 0
        for word in self.words:
            position = self.text.find(word.text, position)
            if position < 0:
                return None
            positions.append(position)
            position += len(word.text)
        return positions or None


@dataclass(frozen=True)
class Transcript:
    """The transcript of a recording.

    Attributes:
        segments: Segments of speech in the order of time, without overlap; empty if there is no speech.
        duration: Length of the recording in seconds.
        conditions: Values by condition, such as {"lang": "es", "domain": "talks"}, for the conditions of the model; the
            language may be a detected one.
        language_probabilities: Probability of each language of the model, highest first; None unless the language was
            detected.
        language: The spoken language: as given, as detected, or the model's only or default language. None if it was
            not given and the model has no languages, or if there is no speech to detect it from.
    """

    segments: tuple[Segment, ...]
    duration: float
    conditions: dict[str, str]
    language_probabilities: dict[str, float] | None = None
    language: str | None = None

    @property
    def text(self) -> str:
        """The texts of the segments, with spaces between them except in scripts without spaces, such as Chinese."""
        return join_texts(segment.text for segment in self.segments)

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all segments; empty unless word times were requested."""
        return tuple(word for segment in self.segments for word in segment.words)

    def with_speakers(self, speaker_of: Callable[[float, float], str]) -> "Transcript":
        """Return this transcript with the speaker of each segment.

        A segment whose words have times is split where the speaker changes; its parts have the score of the whole
        segment, and neither tokens nor alternatives.

        Args:
            speaker_of: Returns the speaker between two times in seconds.
        """
        parts = (part for segment in self.segments for part in _by_speaker(segment, speaker_of))
        return replace(self, segments=tuple(parts))

    def to_json(self, name: str = "") -> str:
        """All fields and `name`, as `transcribe --output_format json` writes them."""
        return self._written("json", name)

    def to_srt(self, max_line_width: int | None = None) -> str:
        """SubRip subtitles, in lines of at most `max_line_width` columns; see `formats`."""
        return self._written("srt", width=max_line_width)

    def to_vtt(self, max_line_width: int | None = None) -> str:
        """WebVTT subtitles; takes the same arguments as `to_srt`."""
        return self._written("vtt", width=max_line_width)

    def _written(self, format: str, name: str = "", width: int | None = None) -> str:
        from espnet_diverse.transcription.formats import written  # which imports this module

        return written(self, name, format, width)


def _by_speaker(segment: Segment, speaker_of: Callable[[float, float], str]) -> Iterator[Segment]:
    positions = segment.word_positions()
    named = [speaker_of(word.start, word.end) for word in segment.words] if positions else []
    if len(set(named)) < 2:
        yield replace(segment, speaker=named[0] if named else speaker_of(segment.start, segment.end))
        return
    starts = [0, *positions[1:], len(segment.text)]
    for speaker, places in groupby(range(len(named)), key=named.__getitem__):
        own = list(places)
        words = segment.words[own[0] : own[-1] + 1]
        text = segment.text[starts[own[0]] : starts[own[-1] + 1]].strip()
        part = Segment(words[0].start, words[-1].end, text, segment.score, words=words, speaker=speaker)
        yield replace(part, ctc_support=segment.ctc_support)
