"""OpenAI's protocol: transcriptions, translations and models; and a websocket for live speech."""

import asyncio
import json
import math
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from espnet_diverse.conditions import CONDITIONS, base_language, values_by_condition
from espnet_diverse.data.scripts import join_texts
from espnet_diverse.decoding.condition_ids import completed
from espnet_diverse.decoding.options import SAME_LANGUAGE_TASKS
from espnet_diverse.decoding.token_text import WORD_START, TokenText
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.serve.application import application, in_thread
from espnet_diverse.serve.batches import Job, Kind
from espnet_diverse.serve.bodies import Bodies, Upload, samples_of
from espnet_diverse.serve.fields import UNUSED, Asked, field_of
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.live import close_with
from espnet_diverse.serve.metrics import METRICS, TYPE
from espnet_diverse.serve.models import Model, Models
from espnet_diverse.serve.openapi import METRICS_PATH, STREAM, description, page
from espnet_diverse.serve.refusals import RefusedError, as_refusal, error_body
from espnet_diverse.text.vocabulary import SPACE
from espnet_diverse.transcription import recordings
from espnet_diverse.transcription.formats import FORMATS
from espnet_diverse.transcription.result import Segment
from espnet_diverse.transcription.transcript import Transcript

_DECODING = 4  # recordings at a time: converters are processes
_ENGLISH = ("en", "eng")
_LEAST = 1e-9  # confidence, so that its logarithm is finite

NOTICES = "X-Notices"
"""Header of an answer with the hints of the request that were not used."""


def api(models: Models, limits: Limits) -> Starlette:
    """The application of OpenAI's protocol.

    Args:
        models: The models.
        limits: Limits of the requests.
    """
    endpoints = _Endpoints(models, limits)
    return application(
        [
            Route("/health", endpoints.health),
            Route(METRICS_PATH, endpoints.metrics),
            Route("/openapi.json", endpoints.openapi),
            Route("/docs", endpoints.docs),
            Route("/v1/models", endpoints.models),
            Route("/v1/models/{name:path}", endpoints.model),
            Route("/v1/audio/transcriptions", partial(endpoints.serve, translates=False), methods=["POST"]),
            Route("/v1/audio/translations", partial(endpoints.serve, translates=True), methods=["POST"]),
            WebSocketRoute(STREAM, endpoints.listen),
        ]
    )


class _Endpoints:
    def __init__(self, models: Models, limits: Limits):
        self._models, self._limits, self._bodies = models, limits, Bodies(limits)
        self._decoding = asyncio.Semaphore(_DECODING)
        self._started = int(time.time())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return Response(METRICS.text(), media_type=TYPE)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(description(Asked))

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(page(description(Asked)))

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._describe(name) for name in self._models.names]})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self._describe(self._models.known(request.path_params["name"])))

    async def listen(self, websocket: WebSocket) -> None:
        await websocket.accept()
        choices = websocket.query_params
        try:
            async with self._models.use(choices.get("model", "")) as model:
                if model.live is None:
                    raise ConfigError("this model does not stream; send a whole recording")
                await model.live.serve(websocket, choices)
        except Exception as error:  # of any kind, such as one while the model is loaded
            await close_with(websocket, error)

    def _describe(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._started, "owned_by": "espnet_diverse"}

    async def serve(self, request: Request, translates: bool) -> Response:
        deadline = Deadline(self._limits.request_seconds)
        async with deadline.kept():
            async with self._bodies.upload(request) as upload:
                asked = Asked.of(upload.fields, self._limits.characters)
                async with self._models.use(asked.model) as model:
                    conditions = _conditions(model, asked, translates)
                    kind = Kind(asked.has_words or bool(asked.include), model.usable_hotwords(asked.terms))
                    work = await self._work(upload, model, kind, conditions)
                    headers = _notices(upload.fields, asked, kind, conditions)
            if not asked.stream:
                response = await self._answer(request, work, asked, conditions, translates)
                response.headers.update(headers)
                return response
        return StreamingResponse(work.events(asked, deadline), media_type="text/event-stream", headers=headers)

    async def _answer(
        self, request: Request, work: "_Work", asked: Asked, conditions: dict[str, str], translates: bool
    ) -> Response:
        transcript = await work.transcript(request)
        language = conditions.get("tgtlang") if translates else transcript.language or asked.language or None
        verbose = {"task": "translate" if translates else "transcribe", "language": language}
        return answer(transcript, asked, verbose, work.tokens)

    async def _work(self, upload: Upload, model: Model, kind: Kind, conditions: dict[str, str]) -> "_Work":
        """Decode a recording, and put it into the queue of its model."""
        rate, longest = model.search.rate, self._limits.seconds
        assert rate is not None  # of a model that reads speech
        async with self._decoding:
            samples = await in_thread(samples_of, upload.content, upload.name, longest, rate)
        work = _Work(model, recordings.Request(samples, rate, conditions), kind, len(samples) / rate)
        model.batches.submit(work.job)
        METRICS.add("audio_seconds_total", len(samples) / rate, source="file")
        return work


class Deadline:
    """The time when a request must have its answer.

    Args:
        seconds: Seconds from now.
    """

    def __init__(self, seconds: float):
        self._seconds, self._at = seconds, asyncio.get_running_loop().time() + seconds

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Stop what a block waits for at the deadline.

        Raises:
            RefusedError: The block was stopped.
        """
        try:
            async with asyncio.timeout_at(self._at):
                yield
        except TimeoutError as error:
            message = (
                f"the request took longer than {self._seconds:g} seconds; send a shorter recording, come when the "
                "server is less busy, or start it with a larger --max_request_seconds"
            )
            raise RefusedError(HTTPStatus.GATEWAY_TIMEOUT, message, "timeout") from error


class _Work:
    """A recording in the queue of a model, for the request that waits for it.

    Attributes:
        tokens: The tokens of the model as text.
    """

    def __init__(self, model: Model, request: recordings.Request, kind: Kind, seconds: float):
        self._batches, self._loop = model.batches, asyncio.get_running_loop()
        self.tokens = model.search.tokens
        self._parts: asyncio.Queue[Sequence[Segment] | None] = asyncio.Queue()
        self.job = Job(replace(request, on_segments=self._put), kind, seconds)
        self.job.result.add_done_callback(lambda _: self._put(None))

    async def transcript(self, request: Request) -> Transcript:
        """The transcript.

        Raises:
            ClientDisconnect: The client has gone, and the recording has left the queue.
            Exceptions of the search.
        """
        future = asyncio.wrap_future(self.job.result)
        gone = asyncio.ensure_future(request.receive())  # after the body, this is the end of the connection
        try:
            await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise ClientDisconnect
            return future.result()
        finally:
            gone.cancel()
            future.cancel()
            self._batches.give_up(self.job)

    async def events(self, asked: Asked, deadline: "Deadline") -> AsyncIterator[str]:
        """Server-sent events of the text as it comes."""
        text = ""
        try:
            while (segments := await self._part(deadline)) is not None:
                if new := delta(text, segments):
                    text += new
                    yield event({"type": "transcript.text.delta", "delta": new})
            yield event({"type": "transcript.text.done", **_text(self.job.result.result(), asked, self.tokens)})
        except Exception as error:  # of any kind: the status was sent before
            yield event(error_body(as_refusal(error)))
        finally:
            self._batches.give_up(self.job)

    async def _part(self, deadline: "Deadline") -> Sequence[Segment] | None:
        async with deadline.kept():
            return await self._parts.get()

    def _put(self, segments: Sequence[Segment] | None) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._parts.put_nowait, segments)


def _conditions(model: Model, asked: Asked, translates: bool) -> dict[str, str]:
    """The conditions of a recording by name; conditions that the model does not depend on have no effect.

    Raises:
        ConfigError: The model cannot do what the request asks for.
    """
    if translates and not model.translates:
        raise ConfigError("this model does not translate; POST the recording to /v1/audio/transcriptions")
    if not translates and not model.transcribes:
        raise ConfigError("this model translates; POST the recording to /v1/audio/translations")
    known = model.search.conditions.names
    same_language = not translates and model.search.task in SAME_LANGUAGE_TASKS
    target = asked.target_language
    if translates and not target:
        targets = known.get("tgtlang", ())
        target = next((name for name in targets if base_language(name) in _ENGLISH), "")
    choices = {"language": asked.language, "target_language": target if translates else "", "domain": asked.domain}
    values = values_by_condition(choices)
    same = {"lang", "tgtlang"} if not translates and known.keys() & {"lang", "tgtlang"} else set()
    values = {condition: value for condition, value in values.items() if condition in known.keys() | same}
    for condition, value in values.items():  # before the recording waits
        try:
            completed(model.search.conditions, {condition: value}, same_language)
        except DataError as error:
            name = CONDITIONS[condition].argument
            message = f"{str(error).removeprefix('--')}; or leave {name} out"
            raise RefusedError(HTTPStatus.BAD_REQUEST, message, param=name) from error
    return values


def _notices(
    form: Sequence[tuple[str, str]], asked: Asked, kind: Kind, conditions: Mapping[str, str]
) -> dict[str, str]:
    """Header about the hints of a request that are not used; ASCII, because it names no text of the request."""
    names = dict.fromkeys(field_of(name) for name, text in form if text.strip())
    notices = [f"{name} is not used: {UNUSED[name]}" for name in names if name in UNUSED]
    if asked.target_language and "tgtlang" not in conditions:
        notices.append("target_language is not used: POST to /v1/audio/translations for a translation")
    if asked.domain and "domain" not in conditions:
        notices.append("domain is not used: the model has no domains")
    if asked.prompt or asked.hotwords:
        used, why = len(kind.hotwords), "sentences, and phrases with characters that the model lacks, are left out"
        notices.append(f"{used} phrases of the prompt are hotwords: {why}")
    return {NOTICES: "; ".join(notices)} if notices else {}


def answer(transcript: Transcript, asked: Asked, verbose: dict[str, str | None], tokens: TokenText) -> Response:
    """The answer to a request.

    Args:
        transcript: The transcript.
        asked: The request.
        verbose: For verbose_json, the `task` and the `language`.
        tokens: The tokens of the model as text.
    """
    if asked.response_format == "json":
        return JSONResponse(_text(transcript, asked, tokens))
    if asked.response_format == "text":
        return PlainTextResponse(f"{transcript.text}\n")
    if asked.response_format in FORMATS:
        return PlainTextResponse(FORMATS[asked.response_format](transcript, ""))
    content: dict[str, Any] = {**verbose, "duration": round(transcript.duration, 3), "text": transcript.text}
    if "segment" in asked.timestamp_granularities:
        content["segments"] = [_segment(number, one, tokens.indices) for number, one in enumerate(transcript.segments)]
    if asked.has_words:
        content["words"] = [
            {"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)} for word in transcript.words
        ]
    return JSONResponse(content)


def delta(before: str, segments: Iterable[Segment]) -> str:
    """Text that segments add to the text before them."""
    return join_texts([before, *(segment.text for segment in segments)])[len(before) :]


def event(content: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False, allow_nan=False)}\n\n"


def _text(transcript: Transcript, asked: Asked, tokens: TokenText) -> dict[str, Any]:
    """The text, and the log probabilities of its tokens if they are requested."""
    if not asked.include:
        return {"text": transcript.text}
    logprobs = [
        {"token": piece, "bytes": list(piece.encode()), "logprob": math.log(max(confidence, _LEAST))}
        for segment in transcript.segments
        for piece, confidence in zip(map(_shown, tokens.pieces(segment.tokens)), segment.confidences, strict=False)
    ]
    return {"text": transcript.text, "logprobs": logprobs}


def _shown(piece: str) -> str:
    return " " if piece == SPACE else piece.replace(WORD_START, " ")


def _segment(number: int, segment: Segment, ids: Callable[[Sequence[str]], list[int]]) -> dict[str, Any]:
    text = segment.text.encode()
    return {
        "id": number,
        "seek": 0,  # Whisper's windows: times here refer to the recording
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "tokens": ids(segment.tokens),
        "temperature": 0.0,  # the search does not sample
        "avg_logprob": segment.score / (len(segment.tokens) + 1) if math.isfinite(segment.score) else None,
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": None,  # only Whisper estimates it, and the search does not return it
    }
