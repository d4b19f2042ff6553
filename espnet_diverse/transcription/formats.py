"""Transcripts in the formats that Whisper's users know, and NIST's trn.

txt   a line a segment
json  everything: text, segments, words with times and probabilities, n best texts, language and how sure
srt   subtitles (SubRip); with word times split into cues of at most `CUE_COLUMNS` columns
vtt   subtitles for the web (WebVTT), likewise
tsv   start and end in milliseconds, and text, of each segment
trn   one line, "text (name)", for sclite
"""

import html
import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.decoding.results import rounded_score
from espnet_diverse.transcription.result import Segment, Transcript

CUE_COLUMNS = 84  # two lines of 42
CUE_PAUSE = 1.0  # seconds without a word that part two cues
_DECIMALS = 4  # of a probability; those after them depend on the batch and the CPU in float32


class _Cue(NamedTuple):
    """A text on the screen, and when."""

    start: float
    end: float
    text: str


def as_txt(transcript: Transcript, name: str) -> str:
    """The texts of the segments, a line each; `name` plays no part, here and where it is not mentioned."""
    return "".join(f"{cue.text}\n" for cue in _segments(transcript))


def as_json(transcript: Transcript, name: str) -> str:
    """Everything that is known, with Whisper's keys where it has them, and `name`. Scores and probabilities are rounded
    to the digits that are certain."""
    languages = transcript.language_probabilities
    content = {
        "name": name,
        "text": transcript.text,
        "language": transcript.language,
        "duration": transcript.duration,
        "conditions": transcript.conditions,
        "language_probabilities": languages and {name: round(p, _DECIMALS) for name, p in languages.items()},
        "segments": [{"id": index, **_fields(segment)} for index, segment in enumerate(transcript.segments)],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def as_srt(transcript: Transcript, name: str) -> str:
    """SubRip subtitles."""
    blocks = [
        f"{number}\n{_span(cue, ',')}\n{cue.text.replace('-->', '->')}\n"
        for number, cue in enumerate(_cues(transcript), start=1)
    ]
    return "\n".join(blocks)


def as_vtt(transcript: Transcript, name: str) -> str:
    """WebVTT subtitles."""
    blocks = [f"{_span(cue, '.')}\n{html.escape(cue.text, quote=False)}\n" for cue in _cues(transcript)]
    return "\n".join(["WEBVTT\n", *blocks])


def as_tsv(transcript: Transcript, name: str) -> str:
    """Start and end in milliseconds and text of the segments, after a line that says so."""
    rows = [f"{_milliseconds(cue.start)}\t{_milliseconds(cue.end)}\t{cue.text}\n" for cue in _segments(transcript)]
    return "start\tend\ttext\n" + "".join(rows)


def as_trn(transcript: Transcript, name: str) -> str:
    """The text and, in brackets, `name`."""
    return f"{_one_line(transcript.text)} ({name})\n".lstrip(" ")


FORMATS: dict[str, Callable[[Transcript, str], str]] = {
    "txt": as_txt,
    "json": as_json,
    "srt": as_srt,
    "vtt": as_vtt,
    "tsv": as_tsv,
    "trn": as_trn,
}


def write_transcript(transcript: Transcript, name: str, formats: Sequence[str], directory: Path) -> None:
    """Write `directory`/`name`.FORMAT for each of `formats`; each file appears complete or not at all."""
    for format in formats:
        write_text(directory / f"{name}.{format}", FORMATS[format](transcript, name))


def _segments(transcript: Transcript) -> Iterator[_Cue]:
    """A cue for each segment that has text."""
    for segment in transcript.segments:
        text = _one_line(segment.text)
        if text:
            yield _Cue(segment.start, segment.end, text)


def _cues(transcript: Transcript) -> Iterator[_Cue]:
    """A cue for each segment that has text; where its words have times, cues that fit on the screen."""
    for segment in transcript.segments:
        places = _places(segment)
        if places is None:
            yield from _segments(replace(transcript, segments=(segment,)))
            continue
        for first, last in _parts(segment, places):
            text = _one_line(segment.text[places[first] : places[last] + len(segment.words[last].text)])
            yield _Cue(segment.words[first].start, segment.words[last].end, text)


def _places(segment: Segment) -> list[int] | None:
    """Where each word begins in the text of the segment; None where there are no words or they are not in it."""
    places, place = [], 0
    for word in segment.words:
        place = segment.text.find(word.text, place)
        if place < 0:
            return None
        places.append(place)
        place += len(word.text)
    return places or None


def _parts(segment: Segment, places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last word of each cue of a segment."""
    first, words = 0, segment.words
    for index in range(1, len(words)):
        shown = segment.text[places[first] : places[index] + len(words[index].text)]
        if _columns(shown) > CUE_COLUMNS or words[index].start - words[index - 1].end >= CUE_PAUSE:
            yield first, index - 1
            first = index
    yield first, len(words) - 1


def _columns(text: str) -> int:
    """How wide a text is; Chinese characters and their like take two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _one_line(text: str) -> str:
    """Tabs and line ends, which part columns and cues, become spaces."""
    return " ".join(text.split())


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _span(cue: _Cue, point: str) -> str:
    return f"{_clock(cue.start, point)} --> {_clock(cue.end, point)}"


def _clock(seconds: float, point: str) -> str:
    minutes, milliseconds = divmod(_milliseconds(seconds), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"


def _fields(segment: Segment) -> dict:
    return {
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "score": _score(segment.score),
        "tokens": segment.tokens,
        "confidences": [round(p, _DECIMALS) for p in segment.confidences],
        "words": [
            {
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "probability": round(word.confidence, _DECIMALS),
            }
            for word in segment.words
        ],
        "alternatives": [{"text": one.text, "score": _score(one.score)} for one in segment.alternatives],
    }


def _score(score: float) -> float | None:
    """The certain digits of a score; JSON has no infinity, which is the score of a segment without a hypothesis."""
    return rounded_score(score) if math.isfinite(score) else None
