"""Times of the words and characters of a given text, by forced alignment (`alignment.py`)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from espnet_diverse.audio.sources import Source, open_audio
from espnet_diverse.decoding.condition_ids import completed, indices_of, warn_of_unused
from espnet_diverse.decoding.frame_times import frame_times
from espnet_diverse.decoding.options import SAME_LANGUAGE_TASKS
from espnet_diverse.decoding.prediction import rounded_probability
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.token_text import UNKNOWN, WORD_START
from espnet_diverse.errors import DataError, abridged
from espnet_diverse.text.vocabulary import SPACE, normalise
from espnet_diverse.transcription.alignment import align_words, check_aligns, split_words
from espnet_diverse.transcription.result import Word
from espnet_diverse.upstream.layers import TooShortUttError

LONGEST = 120.0
"""Seconds of a recording that are aligned at once."""


@dataclass(frozen=True)
class AlignedText:
    """A text with its times in a recording.

    Attributes:
        text: The text.
        duration: Length of the recording in seconds.
        words: Its words.
        tokens: Its characters, or pieces where the vocabulary has pieces; spaces are left out.
    """

    text: str
    duration: float
    words: tuple[Word, ...]
    tokens: tuple[Word, ...]


def align_text(
    search: Predictor, source: Source, text: str, rate: int | None = None, conditions: Mapping[str, str] | None = None
) -> AlignedText:
    """Align a text with a recording of it.

    Args:
        search: Search with a model that has CTC over its output text, or heads that align; only the model is used.
        source: The recording, as for `open_audio`.
        text: The words spoken in it, written like the training text.
        rate: Sampling rate of samples in Hz.
        conditions: Values by condition.

    Raises:
        ConfigError: The model has neither.
        DataError: The recording cannot be read or is too long or too short for the text, the text is empty or has
            characters that the model does not know, or a value of a condition is unknown or missing.
        ModelError: The model's frontend has no hop length.
    """
    check_aligns(search)
    if not isinstance(text, str):
        raise DataError(f"the text to align is a {type(text).__name__}; give the spoken text as str")
    assert search.rate is not None  # a model with CTC reads audio
    frames = frame_times(search.encoding.model, search.rate, "align with another model")
    known, values, same = search.conditions, conditions or {}, search.task in SAME_LANGUAGE_TASKS
    warn_of_unused(known, values, same)
    indices = indices_of(known, completed(known, values, same))
    text = normalise(text)
    tokens = search.tokens.tokenise(text)
    ids = search.tokens.indices(tokens)
    if not ids:
        raise DataError("the text to align is empty; give the spoken text")
    if strange := [token for token, index in zip(tokens, ids, strict=True) if index == UNKNOWN]:
        lacking = abridged(dict.fromkeys(map(repr, strange)))
        raise DataError(f"the model's vocabulary lacks {lacking}; write the text as the training text")
    with open_audio(source, rate, search.rate) as audio:
        name, duration = audio.name, audio.duration
        if duration > LONGEST:
            raise DataError(f"{name}: lasts {duration:.0f} s; at most {LONGEST:g} s are aligned at once: cut it")
        samples = audio.samples(least=1)
    try:
        spans = search.spans(search.features(samples), indices, ids)
    except TooShortUttError as error:
        raise DataError(f"{name}: is too short for the model ({duration:.3f} s)") from error
    if spans is None:
        raise DataError(f"{name}: {len(ids)} tokens do not fit into its {duration:.3f} s; check the text")
    tokens = list(search.tokens.pieces(tokens))
    words = align_words(spans, tokens, frames, 0.0, duration)
    times = [[frames.boundary_within(at, 0.0, duration) for at in (span.start, span.end)] for span in spans]
    timed = [
        Word(token.removeprefix(WORD_START), start, end, span.score)
        for token, (start, end), span in zip(tokens, times, spans, strict=True)
    ]
    return AlignedText(text, duration, words, tuple(_shown(tokens, timed, words)))


def _shown(tokens: Sequence[str], timed: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """Tokens without spaces; each lasts until the next token of its word, or until the end of the word."""
    shown = []
    for (_, first, after), word in zip(split_words(tokens), words, strict=True):
        pieces = [one for token, one in zip(tokens[first:after], timed[first:after], strict=True) if token != SPACE]
        pieces = [one for one in pieces if one.text]
        shown += [replace(one, end=following.start) for one, following in pairwise(pieces)]
        shown.append(replace(pieces[-1], end=max(pieces[-1].end, word.end)))
    return shown


def as_json(aligned: AlignedText, name: str) -> str:
    """Name, text, duration, and words and tokens with times and probabilities."""

    def row(one: Word, key: str) -> dict[str, Any]:
        times = {"start": round(one.start, 3), "end": round(one.end, 3)}
        return {key: one.text, **times, "probability": rounded_probability(one.confidence)}

    content = {"name": name, "text": aligned.text, "duration": aligned.duration}
    content |= {"words": [row(one, "word") for one in aligned.words]}
    content |= {"tokens": [row(one, "token") for one in aligned.tokens]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def as_ctm(aligned: AlignedText, name: str) -> str:
    """NIST's ctm: name, channel, start, length, word and confidence a line; spaces of the name become "_"."""
    name = "_".join(name.split())  # spaces separate columns
    rows = ((one.start, one.end - one.start, one.text, one.confidence) for one in aligned.words)
    return "".join(f"{name} 1 {start:.3f} {length:.3f} {text} {sure:.4f}\n" for start, length, text, sure in rows)


def as_textgrid(aligned: AlignedText, name: str) -> str:
    """A TextGrid of Praat with the tiers words and tokens; `name` is not used."""
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", *_bounds(0.0, aligned.duration)]
    lines += ["tiers? <exists>", "size = 2", "item []:"]
    for number, (title, units) in enumerate({"words": aligned.words, "tokens": aligned.tokens}.items(), start=1):
        intervals = _covering(units, aligned.duration)
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{title}"']
        lines += [f"        {line}" for line in _bounds(0.0, aligned.duration)]
        lines.append(f"        intervals: size = {len(intervals)}")
        for place, (start, end, text) in enumerate(intervals, start=1):
            quoted = text.replace('"', '""')
            lines.append(f"        intervals [{place}]:")
            lines += [f"            {line}" for line in (*_bounds(start, end), f'text = "{quoted}"')]
    return "\n".join(lines) + "\n"


def _bounds(start: float, end: float) -> tuple[str, str]:
    return f"xmin = {start:.6f}", f"xmax = {end:.6f}"


def _covering(units: Sequence[Word], duration: float) -> list[tuple[float, float, str]]:
    """Intervals from the beginning to the end of a recording; between the units they are empty.

    A unit without time of its own is in the interval of the unit before it, or of the next.
    """
    intervals: list[tuple[float, float, str]] = []
    done, waiting = 0.0, ""
    for one in units:
        start, end = max(one.start, done), min(one.end, duration)
        if end > start:
            intervals += [(done, start, "")] * (start > done)
            intervals.append((start, end, waiting + one.text))
            done, waiting = end, ""
        elif intervals:
            intervals[-1] = (*intervals[-1][:2], f"{intervals[-1][2]} {one.text}")
        else:
            waiting += f"{one.text} "
    if duration > done or not intervals:
        intervals.append((done, duration, waiting.rstrip()))
    return intervals


ALIGNMENT_FORMATS: dict[str, Callable[[AlignedText, str], str]] = {
    "json": as_json,
    "textgrid": as_textgrid,
    "ctm": as_ctm,
}
