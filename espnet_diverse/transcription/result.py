"""Segments of a transcript with their words, and translations.

All times are in seconds from the beginning of the recording.
"""

from dataclasses import dataclass
from typing import NamedTuple

from espnet_diverse.decoding.options import LEAST_SUPPORT


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


class Translation(NamedTuple):
    """Translation of a text.

    Attributes:
        text: The best translation.
        score: Its log score.
        alternatives: The n-best translations, best first.
        tokens: Tokens of the best translation.
    """

    text: str
    score: float
    alternatives: tuple[Alternative, ...] = ()
    tokens: tuple[str, ...] = ()


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
        return self.ctc_support is not None and self.ctc_support < LEAST_SUPPORT

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
