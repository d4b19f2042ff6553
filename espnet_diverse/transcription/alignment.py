"""Times and confidences of words, by forced alignment with CTC, or by the attention of a decoder that has heads for it.

CTC (`decoding/ctc_alignment.py`) learns to emit a token in one or two frames of the time in which it is spoken, and
blank in the others, so words appear shorter than they are. A character of a script without spaces, such as a Chinese
one, would last only a frame; it is extended to the next one or the end of the segment, or to half a second. Attention
(`decoding/attention_alignment.py`) gives tokens frames without gaps.

The confidence of a token is the mean of its CTC posteriors over its frames, or its probability by the decoder, and of a
word the mean over its tokens. Other scores that the search uses do not count.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchaudio.functional import TokenSpan

from espnet_diverse.data.scripts import UNSPACED_LETTER, may_break
from espnet_diverse.decoding.ctc_alignment import align, ctc_support
from espnet_diverse.decoding.frame_times import FrameTimes, frame_times
from espnet_diverse.decoding.prediction import Prediction
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.token_text import WORD_START
from espnet_diverse.errors import ConfigError, UserError
from espnet_diverse.text.vocabulary import SPACE
from espnet_diverse.transcription.result import Segment, Word

log = logging.getLogger(__name__)

_LONGEST = 0.5  # seconds of a character with a pause after it


def check_aligns(search: Predictor) -> None:
    """Refuse word times for a model that has neither CTC over its output text nor heads that align.

    Raises:
        ConfigError: The model has neither.
    """
    if not search.aligns:
        reason = "times of words need CTC that was trained on the output text, or heads that align"
        raise ConfigError(f"{reason}, and this model has neither; turn word_timestamps off, or take another model")


def has_word_times(search: Predictor) -> bool:
    """Return whether the model of a search can give word times."""
    if not search.aligns or search.rate is None:
        return False
    try:
        frame_times(search.encoding.model, search.rate)
    except UserError:
        return False
    return True


def align_segment(
    search: Predictor, segment: Segment, prediction: Prediction, frames: FrameTimes | None, has_support: bool
) -> Segment:
    """A segment with what the frames of its tokens say about its text.

    Args:
        search: Search with the model.
        segment: The segment with its text and tokens.
        prediction: Result of the search, with CTC log probabilities or frames of tokens, or without both.
        frames: Times of the frames, for words with times and confidences; None leaves them out.
        has_support: Whether CTC may support a text that it did not write.
    """
    spans = prediction.spans
    if prediction.log_probs is not None:
        spans = align(prediction.log_probs, search.tokens.indices(segment.tokens), search.ctc)
        if has_support and segment.tokens:
            segment = replace(segment, ctc_support=ctc_support(spans))
    if frames is None:
        return segment
    if spans is None:
        assert prediction.log_probs is not None  # attention aligns any text
        log.warning(
            "%d tokens cannot be aligned to %d frames from %.2f s on; their words get no times",
            *(len(segment.tokens), len(prediction.log_probs), segment.start),
        )
        return segment
    words = align_words(spans, search.tokens.pieces(segment.tokens), frames, segment.start, segment.end)
    return replace(segment, confidences=tuple(span.score for span in spans), words=words)


def align_words(
    spans: Sequence[TokenSpan], tokens: Sequence[str], frames: FrameTimes, start: float, end: float
) -> tuple[Word, ...]:
    """The words of a segment with their times in whole milliseconds; words do not overlap.

    Args:
        spans: Frames of the tokens, from `align`.
        tokens: The tokens of its text: characters with <space>, or pieces, see `TokenText.pieces`.
        frames: Times of the frames, from the beginning of the segment.
        start, end: Begin and end of the segment in the recording, in seconds.
    """
    words = []
    for text, first, last in split_words(tokens):
        scores = [span.score for span in spans[first:last]]
        begin, after = (frames.boundary_within(at, start, end) for at in (spans[first].start, spans[last - 1].end))
        words.append(Word(text, begin, after, sum(scores) / len(scores)))
    return tuple(
        replace(word, start=round(word.start, 3), end=round(word.end, 3))
        for word in _until_next(words, int(1000 * end) / 1000)
    )


def _until_next(words: Sequence[Word], end: float) -> Iterator[Word]:
    """Words that end before the next word or `end`.

    Those of scripts without spaces are extended to that place, to at most `_LONGEST` seconds.
    """
    for number, word in enumerate(words, 1):
        limit = words[number].start if number < len(words) else end
        extended = max(word.end, word.start + _LONGEST) if UNSPACED_LETTER.search(word.text) else word.end
        yield replace(word, end=max(word.start, min(limit, extended)))


def split_words(tokens: Sequence[str]) -> list[tuple[str, int, int]]:
    """Group tokens into words: the text of each word, its first token and the token after its last.

    A word begins after <space> and at a piece with "▁". In a script without spaces, a character is a separate
    word, with the marks and punctuation after it. Pieces are never split. Of a character of several tokens, the first
    has the text, and the others are empty.
    """
    words: list[tuple[str, int, int]] = []
    begins = True
    for index, token in enumerate(tokens):
        begins |= token == SPACE or token.startswith(WORD_START)
        piece = "" if token == SPACE else token.removeprefix(WORD_START)
        if not piece:
            if not token and words and not begins:  # more tokens of the last character
                text, first, _ = words[-1]
                words[-1] = text, first, index + 1
            continue
        if begins or may_break(words[-1][0], piece):
            words.append((piece, index, index + 1))
        else:
            text, first, _ = words[-1]
            words[-1] = text + piece, first, index + 1
        begins = False
    return words
