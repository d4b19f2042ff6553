"""Transcripts in the file formats of Whisper's command line, and NIST's trn.

txt   one line for each segment
json  everything: text, segments, words with times and probabilities, n-best texts, language and its probabilities
srt   SubRip subtitles; with word times, split into cues of at most `CUE_COLUMNS` columns, or two lines of a width
vtt   WebVTT subtitles, split in the same way
tsv   start and end in milliseconds, and text, of each segment; with word times, from its first to its last word
trn   one line, "text (name)", for sclite
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from espnet_diverse.data.characters import columns
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.scripts import may_break
from espnet_diverse.decoding.prediction import json_score, rounded_probability
from espnet_diverse.transcription.result import Segment

CUE_COLUMNS = 84  # two lines of 42
CUE_PAUSE = 1.0  # seconds without a word that begin a new cue
_UNREADABLE = re.compile(r"[\s()]+")  # in an id of a .trn
_ARROW = re.compile("--+>")  # separates the times of a cue


class Formatted(Protocol):
    """A transcript, as far as a file holds it; see `transcript.Transcript`."""

    @property
    def text(self) -> str: ...
    @property
    def segments(self) -> Sequence[Segment]: ...
    @property
    def duration(self) -> float: ...
    @property
    def conditions(self) -> dict[str, str]: ...
    @property
    def language(self) -> str | None: ...
    @property
    def language_probabilities(self) -> dict[str, float] | None: ...


class _Cue(NamedTuple):
    """A line of subtitles: start and end in seconds, and text."""

    start: float
    end: float
    text: str
    speaker: str = ""


def as_txt(transcript: Formatted, name: str) -> str:
    """One line for each segment; `name` is not used."""
    return "".join(f"{cue.text}\n" for cue in _segments(transcript.segments))


def as_json(transcript: Formatted, name: str) -> str:
    """All fields and `name`, under Whisper's keys where they exist; scores are rounded to their certain digits."""
    languages = transcript.language_probabilities
    content = {
        "name": name,
        "text": transcript.text,
        "language": transcript.language,
        "duration": transcript.duration,
        "conditions": transcript.conditions,
        "language_probabilities": languages and {name: rounded_probability(p) for name, p in languages.items()},
        "segments": [{"id": index, **_fields(segment)} for index, segment in enumerate(transcript.segments)],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def as_srt(transcript: Formatted, name: str, width: int | None = None) -> str:
    """SubRip subtitles; `name` is not used, `width` is the greatest number of columns of a line."""
    blocks = [
        f"{number}\n{_span(cue, ',')}\n{_ARROW.sub('->', _wrapped(_spoken(cue), width))}\n"
        for number, cue in enumerate(_cues(transcript, width), start=1)
    ]
    return "\n".join(blocks)


def as_vtt(transcript: Formatted, name: str, width: int | None = None) -> str:
    """WebVTT subtitles; takes the same arguments as `as_srt`."""
    blocks = [
        f"{_span(cue, '.')}\n{_voice(cue)}{html.escape(_wrapped(cue.text, width), quote=False)}\n"
        for cue in _cues(transcript, width)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def as_tsv(transcript: Formatted, name: str) -> str:
    """Start and end in milliseconds and text of each segment, after a header line; `name` is not used."""
    rows = [
        f"{_milliseconds(cue.start)}\t{_milliseconds(cue.end)}\t{cue.text}\n" for cue in _segments(transcript.segments)
    ]
    return "start\tend\ttext\n" + "".join(rows)


def as_trn(transcript: Formatted, name: str) -> str:
    """The text, and `name` in brackets; spaces and brackets of the name become "_"."""
    return f"{_one_line(transcript.text)} ({_UNREADABLE.sub('_', name)})\n".lstrip(" ")


FORMATS: dict[str, Callable[..., str]] = {
    "txt": as_txt,
    "json": as_json,
    "srt": as_srt,
    "vtt": as_vtt,
    "tsv": as_tsv,
    "trn": as_trn,
}


SUBTITLES = ("srt", "vtt")


def written(transcript: Formatted, name: str, format: str, width: int | None = None) -> str:
    """The content of a file.

    Args:
        transcript: The transcript.
        name: Name of the recording.
        format: One of `FORMATS`.
        width: Greatest number of columns of a line of subtitles; a longer word stays whole.
    """
    return FORMATS[format](transcript, name, *([width] if format in SUBTITLES else []))


def write_transcript(
    transcript: Formatted, name: str, formats: Sequence[str], directory: Path, width: int | None = None
) -> None:
    """Write `directory`/`name`.FORMAT for each of `formats`; each file appears complete or not at all."""
    for format in formats:
        write_text(directory / f"{name}.{format}", written(transcript, name, format, width))


def _segments(segments: Iterable[Segment]) -> Iterator[_Cue]:
    """A cue for each segment that has text."""
    for segment in segments:
        text = _one_line(segment.text)
        if text:
            words = segment.words
            start, end = (words[0].start, words[-1].end) if words else (segment.start, segment.end)
            yield _Cue(start, end, text, segment.speaker)


def _cues(transcript: Formatted, width: int | None) -> list[_Cue]:
    """A cue for each segment that has text, or several that fit on a screen if its words have times.

    They are in the order of time, also where a speaker talks within a segment of another.
    """
    cues: list[_Cue] = []
    for segment in transcript.segments:
        positions = segment.word_positions()
        cues += _segments([segment]) if positions is None else _split_words(segment, positions, width)
    return sorted(cues, key=lambda cue: cue.start)


def _split_words(segment: Segment, positions: Sequence[int], width: int | None) -> Iterator[_Cue]:
    """Cues of a segment, which end at pauses and where the next word does not fit."""

    def cue(first: int, last: int) -> _Cue:
        text = _one_line(segment.text[positions[first] : positions[last] + len(words[last].text)])
        return _Cue(words[first].start, words[last].end, text, segment.speaker)

    first, words = 0, segment.words
    for index in range(1, len(words)):
        shown = _spoken(cue(first, index))
        is_long = columns(shown) > CUE_COLUMNS if width is None else _wrapped(shown, width).count("\n") > 1
        if is_long or words[index].start - words[index - 1].end >= CUE_PAUSE:
            yield cue(first, index - 1)
            first = index
    yield cue(first, len(words) - 1)


def _spoken(cue: _Cue) -> str:
    return f"[{cue.speaker}] {cue.text}" if cue.speaker else cue.text


def _voice(cue: _Cue) -> str:
    """WebVTT's voice tag for the speaker of a cue."""
    return f"<v {html.escape(cue.speaker, quote=False)}>" if cue.speaker else ""


def _wrapped(text: str, width: int | None) -> str:
    """A text in lines, broken at spaces and, in scripts without spaces, between characters."""
    if width is None:
        return text
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and columns((lines[-1] + piece).strip()) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece).lstrip()
    return "\n".join(map(str.rstrip, lines))


def _pieces(text: str) -> list[str]:
    """Parts of a text between which a line may be broken; spaces begin a part."""
    pieces: list[str] = []
    for character in text:
        if not pieces or character == " " or may_break(pieces[-1], character):
            pieces.append(character)
        else:
            pieces[-1] += character
    return pieces


def _one_line(text: str) -> str:
    """Replace tabs and line ends, which separate columns and cues, by spaces."""
    return " ".join(text.split())


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _span(cue: _Cue, point: str) -> str:
    return f"{_clock(cue.start, point)} --> {_clock(cue.end, point)}"


def _clock(seconds: float, point: str) -> str:
    minutes, milliseconds = divmod(_milliseconds(seconds), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"


def _fields(segment: Segment) -> dict[str, Any]:
    return {
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        **({"speaker": segment.speaker} if segment.speaker else {}),
        "score": json_score(segment.score),
        "tokens": segment.tokens,
        "confidences": [rounded_probability(p) for p in segment.confidences],
        "words": [
            {
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "probability": rounded_probability(word.confidence),
            }
            for word in segment.words
        ],
        **({"ctc_support": rounded_probability(segment.ctc_support)} if segment.ctc_support is not None else {}),
        "alternatives": [{"text": one.text, "score": json_score(one.score)} for one in segment.alternatives],
    }
