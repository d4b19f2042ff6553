"""What transcribing a recording gives. All times are seconds from its beginning."""

from dataclasses import dataclass

from espnet_diverse.transcription.cjk import joined


@dataclass(frozen=True)
class Word:
    """A word, when it was said, and how sure the model is of it, 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Alternative:
    """One of the n best texts of a segment, and its log score."""

    text: str
    score: float


@dataclass(frozen=True)
class Segment:
    """A stretch of speech that was decoded at once.

    Attributes:
        start, end: When.
        text: The best text; empty where nothing was recognised.
        score: Its log score.
        tokens, confidences: Its tokens and, where they were asked for, how sure the model is of each, 0 to 1.
        words: Its words, where they were asked for.
        alternatives: The n best texts, best first, this one among them.
    """

    start: float
    end: float
    text: str
    score: float
    tokens: tuple[str, ...] = ()
    confidences: tuple[float, ...] = ()
    words: tuple[Word, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class Transcript:
    """A recording in text.

    Attributes:
        segments: Stretches of speech in the order of time; they do not overlap. None where nobody speaks.
        duration: Seconds of the recording.
        conditions: Name by condition, such as {"lang": "es", "domain": "talks"}, of what the model knows of
            conditions; that of the language may have been found.
        language_probabilities: Where the language was found: how likely each is that the model knows, likeliest first.
        language: What is spoken: as given, as found, or as the model takes for granted, by a default or because it
            knows no other. None where a model that knows no languages was given none, or where silence gave nothing to
            find one by.
    """

    segments: tuple[Segment, ...]
    duration: float
    conditions: dict[str, str]
    language_probabilities: dict[str, float] | None = None
    language: str | None = None

    @property
    def text(self) -> str:
        """The texts of the segments, with a space between them except between Chinese or Japanese characters."""
        return joined(segment.text for segment in self.segments)
