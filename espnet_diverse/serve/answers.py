"""Transcripts in the forms of OpenAI's protocol."""

import json
import math
import zlib
from collections.abc import Callable, Iterable

from starlette.responses import JSONResponse, PlainTextResponse, Response

from espnet_diverse.transcription.cjk import join_texts
from espnet_diverse.transcription.formats import FORMATS
from espnet_diverse.transcription.result import Segment, Transcript

RESPONSE_FORMATS = ("json", "text", "srt", "vtt", "verbose_json")


def answer(
    transcript: Transcript, response_format: str, granularities: Iterable[str], verbose: dict, ids: Callable
) -> Response:
    """The answer to a request.

    Args:
        transcript: The transcript.
        response_format: One of `RESPONSE_FORMATS`.
        granularities: For verbose_json, "word" and "segment", as asked for.
        verbose: For verbose_json, the `task` and the `language`.
        ids: Indices of the tokens of a text in the vocabulary of the model.
    """
    if response_format == "json":
        return JSONResponse({"text": transcript.text})
    if response_format == "text":
        return PlainTextResponse(f"{transcript.text}\n")
    if response_format in FORMATS:
        return PlainTextResponse(FORMATS[response_format](transcript, ""))
    content = {**verbose, "duration": transcript.duration, "text": transcript.text}
    if "segment" in granularities:
        content["segments"] = [_segment(number, one, ids) for number, one in enumerate(transcript.segments)]
    if "word" in granularities:
        words = [word for segment in transcript.segments for word in segment.words]
        content["words"] = [{"word": word.text, "start": word.start, "end": word.end} for word in words]
    return JSONResponse(content)


def delta(before: str, segments: Iterable[Segment]) -> str:
    """Text that segments add to the text before them."""
    return join_texts([before, *(segment.text for segment in segments)])[len(before) :]


def event(content: dict) -> str:
    """One of server-sent events."""
    return f"data: {json.dumps(content, ensure_ascii=False, allow_nan=False)}\n\n"


def _segment(number: int, segment: Segment, ids: Callable) -> dict:
    text = segment.text.encode()
    return {
        "id": number,
        "seek": 0,  # Whisper's windows: times are those of the recording
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": ids(segment.tokens),
        "temperature": 0.0,  # the search does not sample
        "avg_logprob": segment.score / (len(segment.tokens) + 1) if math.isfinite(segment.score) else None,
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": None,  # which our models do not estimate
    }
