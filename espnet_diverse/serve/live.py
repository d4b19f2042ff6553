"""Streaming recognition: a client sends samples by a websocket, and gets the text so far.

The recogniser runs in a thread and requests samples from the websocket as it needs them, so that a client that sends
faster than speech is recognised has to wait. Each stream has its own search; all searches of a model share its nets.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import anyio.from_thread
import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import resample_blocks
from espnet_diverse.conditions import CONDITIONS, values_by_condition
from espnet_diverse.data.scripts import join_texts
from espnet_diverse.decoding.condition_ids import completed, indices_of
from espnet_diverse.decoding.espnet.shared_attention import share_attention
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.streaming.block_search import BlockSearch, check_stream_options, check_streaming
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.option_checks import must_be
from espnet_diverse.serve.application import in_thread
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.metrics import METRICS
from espnet_diverse.serve.refusals import RefusedError, as_refusal, busy, error_body
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.streaming import StreamResult, transcribe_stream

END = "end"
"""Message of a client whose recording has ended."""
_CLOSED = {HTTPStatus.TOO_MANY_REQUESTS: 1013, HTTPStatus.INTERNAL_SERVER_ERROR: 1011}
_POLICY_VIOLATION = 1008
_REASON_BYTES = 123  # of a closing frame, at most
_LONGEST_RATE = 9  # digits


class LiveRecognition:
    """Recognises streams with one model, at most `limits.streams` at a time.

    Args:
        search: Returns a new search with the model, which must stream.
        segmentation: Options of detecting utterances.
        limits: Limits of one stream, and of their number.
    """

    def __init__(self, search: Callable[[], BlockSearch], segmentation: SegmentationOptions, limits: Limits):
        self.segmentation, self.limits = segmentation, limits
        self._make, self._lock, self._count = search, Lock(), 0
        first = search()
        self.rate, self.conditions, self._idle = first.rate, first.conditions, [first]

    async def serve(self, websocket: WebSocket, choices: Mapping[str, str]) -> None:
        """Recognise one stream.

        The client sends samples, 16-bit little-endian PCM, mono, in binary messages of at most 1 MiB, and the text
        message `END`. It gets messages of JSON: `type`, "partial" or "final"; `text` of the utterance; `space`, the
        text between it and the text before; `start`, `end` and `heard` in seconds. After the last one it gets the
        `type` "end" with the seconds that were `heard`. A fault is a message `error` in OpenAI's form; it ends the
        stream.

        Args:
            websocket: The connection, which was accepted.
            choices: `rate`, the sampling rate of the samples in Hz, by default the model's rate, and the arguments of
                `condition_controls`.
        """
        try:
            heard = await self._recognise(websocket, choices)
            await websocket.send_json({"type": "end", "heard": heard})
            await websocket.close()
        except WebSocketDisconnect:
            pass
        except Exception as error:  # of any kind, because a stream must not stop the server
            await close_with(websocket, error)

    async def _recognise(self, websocket: WebSocket, choices: Mapping[str, str]) -> float:
        """Recognise a stream to its end, and return its seconds."""
        rate, indices = self._rate(choices), self._indices(choices)
        if self._count == self.limits.streams:
            raise busy("another recording is being transcribed; try again when it has ended", "streams")
        self._count += 1
        stream = _Stream(websocket, rate, self.limits)
        try:
            await in_thread(self._run, stream, indices)
            return stream.heard
        finally:
            self._count -= 1
            METRICS.add("audio_seconds_total", stream.heard, source="stream")

    def _rate(self, choices: Mapping[str, str]) -> int:
        value = choices.get("rate") or str(self.rate)
        if not value.isdecimal() or len(value) > _LONGEST_RATE or not RATES[0] <= int(value) <= RATES[1]:
            raise must_be("rate", f"a whole number of Hz, {RATES[0]} to {RATES[1]}", value)
        return int(value)

    def _indices(self, choices: Mapping[str, str]) -> dict[str, int]:
        names = completed(self.conditions, values_by_condition(choices), same_language=True)
        for condition in self.conditions.names.keys() - names.keys():
            reason = f"the {CONDITIONS[condition].label} cannot be identified in a stream"
            raise DataError(f"{reason}; choose one before you record: {' '.join(self.conditions.names[condition])}")
        return indices_of(self.conditions, names)

    def _run(self, stream: "_Stream", indices: Mapping[str, int]) -> None:
        with self._lock:
            search = self._idle.pop() if self._idle else None
        search = search or self._make()
        try:
            search.indices = indices
            blocks = resample_blocks(stream.blocks(), stream.rate, search.rate)
            for result in transcribe_stream(search, blocks, self.segmentation):
                stream.tell(result)
        finally:
            with self._lock:
                self._idle.append(search)


class _Stream:
    """A websocket, as used in the thread of the recogniser."""

    def __init__(self, websocket: WebSocket, rate: int, limits: Limits):
        self.websocket, self.rate, self.limits = websocket, rate, limits
        self.samples = 0
        self._began = time.monotonic()
        self._waited = 0.0  # seconds of waiting for messages since the last samples
        self._rest = b""  # the first byte of a sample whose second one is in the next message
        self._text = ""  # the end of the text before, which decides about a space

    @property
    def heard(self) -> float:
        return self.samples / self.rate

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """Samples (L,) float32 as they come."""
        while (part := anyio.from_thread.run(self._receive)) is not None:
            yield part.astype(np.float32) / np.float32(2**15)

    def tell(self, result: StreamResult) -> None:
        """Send a text."""
        space = join_texts([self._text, result.text])[len(self._text) : -len(result.text) or None]
        kind = "final" if result.is_final else "partial"
        times = {"start": result.start, "end": result.end, "heard": result.heard}
        if result.is_final:
            self._text = result.text[-1:] or self._text
        anyio.from_thread.run(self._send, {"type": kind, "text": result.text, "space": space, **times})

    async def _receive(self) -> NDArray[np.int16] | None:
        """The next samples (L,) int16, or None at the end."""
        waits = time.monotonic()
        try:
            with anyio.fail_after(max(0.0, self.limits.idle_seconds - self._waited)):
                message = await self.websocket.receive()
        except TimeoutError as error:
            gone = "the recording has ended, because nothing was sent for a while; record again"
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, gone) from error
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        if (text := message.get("text")) is not None:
            if text != END:
                raise must_be("a message of text", END, text)
            if self._rest:
                raise DataError("the last sample has one byte; samples must have 16 bits, little-endian, mono")
            return None
        part = self._rest + message["bytes"]
        part, self._rest = part[: len(part) // 2 * 2], part[len(part) // 2 * 2 :]
        self.samples += len(part) // 2
        now = time.monotonic()
        self._waited = 0.0 if part else self._waited + now - waits  # messages without samples keep no place
        if max(self.heard, now - self._began) > self.limits.stream_seconds:
            longest = f"the limit of {self.limits.stream_seconds:g} seconds"
            raise DataError(f"the recording is longer than {longest}; stop before, or see --max_stream_seconds")
        return np.frombuffer(part, "<i2")

    async def _send(self, message: dict[str, Any]) -> None:
        if self.websocket.client_state is WebSocketState.CONNECTED:
            await self.websocket.send_json(message)


async def close_with(websocket: WebSocket, error: Exception) -> None:
    """Send an error to the client of an accepted websocket, and close it."""
    refusal = as_refusal(error)
    with suppress(WebSocketDisconnect, RuntimeError):  # the client may be gone
        await websocket.send_json({"type": "error", **error_body(refusal)})
        reason = str(refusal).encode()[:_REASON_BYTES].decode(errors="ignore")
        await websocket.close(_CLOSED.get(refusal.status, _POLICY_VIOLATION), reason)


def live_recognition(
    search: Predictor, config_file: Path, limits: Limits, segmentation: SegmentationOptions
) -> LiveRecognition | None:
    """Live recognition with the loaded model of another search; None if the model needs whole recordings.

    It needs them if encoder or decoder do not stream, and with an n-gram model, another precision or compiled layers.
    ESPnet's attention in the model is changed so that several threads may use it.

    Args:
        search: The other search, which may continue to use the model at the same time.
        config_file: The model's config.yaml.
        limits: Limits of one stream, and of their number.
        segmentation: Options of detecting utterances.
    """
    if search.compiled or search.precision != "float32" or isinstance(search.language_model, NgramScorer):
        return None
    try:
        check_streaming(vars(search.args), config_file)
        check_stream_options(search.options, Fusion())
    except (ConfigError, ModelError):
        return None
    model, lm = search.encoding.model, search.language_model
    for shared in filter(None, (model, lm)):
        share_attention(shared)
    make = partial(BlockSearch, model, search.args, search.options, search.device, lm, search.hotwords)
    return LiveRecognition(make, segmentation, limits)
