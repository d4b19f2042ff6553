"""Recognition of the microphone while somebody speaks: the page sends samples part by part, and gets the text so far.

There is one such recording at a time, because a search serves one stream. The recogniser runs in a thread and requests
samples; a request of the page passes it one part and waits until it requests the next. Thus no more than one part is
held, and a page sends longer parts where recognition is slower than speech. Parts are numbered. The page may repeat the
last part if the answer was lost; it is processed once. A gap is refused. A recording that sends nothing for a while
ends.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.libsndfile import RATES
from espnet_diverse.audio.resampling import resample_blocks
from espnet_diverse.conditions import CONDITIONS, values_by_condition
from espnet_diverse.decoding.condition_ids import completed, indices_of
from espnet_diverse.decoding.espnet.shared_attention import share_attention
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.streaming.block_search import BlockSearch, check_stream_options, check_streaming
from espnet_diverse.demo.controls import whole
from espnet_diverse.demo.limits import Limits
from espnet_diverse.demo.uploads import Refusal, RefusedError
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.transcription.cjk import join_texts
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.streaming import transcribe_stream

IDLE_SECONDS = 10.0
"""A recording ends when nothing was sent for so long."""


class LiveRecognition:
    """Recognises the microphone of the page, one recording at a time.

    Args:
        search: Search with a model that streams.
        segmentation: Options of detecting utterances.
        limits: Limits of one recording.
        idle_seconds: A recording ends when nothing was sent for so long.
    """

    def __init__(
        self,
        search: BlockSearch,
        segmentation: SegmentationOptions,
        limits: Limits,
        idle_seconds: float = IDLE_SECONDS,
    ):
        self.search, self.segmentation, self.limits, self.idle_seconds = search, segmentation, limits, idle_seconds
        self._recording: _Recording | None = None
        self._lock = Lock()

    @property
    def paused(self) -> AbstractContextManager:
        """A block in which nothing is recognised: parts that are sent wait for its end."""
        return self._lock

    def begin(self, choices: Mapping[str, str]) -> dict:
        """Begin a recording.

        Args:
            choices: `rate`, the sampling rate of its samples in Hz, by default that of the model, and the arguments of
                `condition_controls`.

        Returns:
            `id` for `hear`.

        Raises:
            ConfigError: The rate is not possible.
            DataError: A condition is unknown or missing.
            RefusedError: Another recording has not ended.
        """
        rate = whole(choices, "rate") or self.search.rate
        if not RATES[0] <= rate <= RATES[1]:
            raise ConfigError(f"rate {rate} is not allowed; give {RATES[0]} to {RATES[1]} Hz")
        known = self.search.conditions
        names = completed(known, values_by_condition(choices), same_language=True)
        for condition in known.names.keys() - names.keys():
            what = f"the {CONDITIONS[condition].label} cannot be identified while somebody speaks"
            raise DataError(f"{what}; choose one before you record: {' '.join(known.names[condition])}")
        indices = indices_of(known, names)
        with self._lock:
            if self._recording is not None and not self._recording.has_ended:
                busy = "another recording is being transcribed; try again when it has ended"
                raise RefusedError(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, busy))
            self.search.indices = indices
            self._recording = _Recording(self, rate)
        return {"id": self._recording.id}

    def hear(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Hear the next part of a recording.

        Args:
            body: Samples, 16-bit little-endian PCM, mono.
            choices: `id` of the recording; `part`, the number of this part, from 0; `last`, "1" if the recording ends
                with this part.

        Returns:
            `text`, of the utterances that have ended; `partial`, of the one that is spoken, with the space between
            them; and `heard`, the seconds so far.

        Raises:
            ConfigError: The number of the part is missing.
            DataError: A sample is incomplete, or the recording is too long.
            RefusedError: There is no such recording, it has ended, or a part before this one is missing.
        """
        with self._lock:
            recording = self._recording
            if recording is None or recording.id != choices.get("id"):
                raise RefusedError(_GONE)
            if len(body) % 2:
                raise DataError(f"{len(body)} bytes are an odd number; samples must have 16 bits, little-endian, mono")
            part, expected = whole(choices, "part"), recording.parts
            if part is None:
                raise ConfigError("part is missing; number the parts from 0")
            if part == expected:
                recording.hear(np.frombuffer(body, "<i2"), bool(choices.get("last")))
            elif part != expected - 1:  # which is repeated
                gap = f"part {part} came where part {expected} is expected; record again"
                raise RefusedError(Refusal(HTTPStatus.CONFLICT, gap))
            return recording.answer()


_GONE = Refusal(HTTPStatus.GONE, "the recording has ended, because nothing was sent for a while; record again")


class _Recording:
    """A recording and the thread that recognises it; methods are called by one request at a time."""

    def __init__(self, live: LiveRecognition, rate: int):
        self.live, self.rate = live, rate
        self.id = secrets.token_urlsafe(9)
        self.parts = self.samples = 0
        self.text = self.partial = ""
        self.has_ended = False
        self._given: SimpleQueue[NDArray | None] = SimpleQueue()  # what the thread is to hear; None ends it
        self._asked: SimpleQueue[BaseException | None] = SimpleQueue()  # from the thread: it has heard all, or failed
        Thread(target=self._recognise, daemon=True).start()
        self._wait()

    def hear(self, samples: NDArray, last: bool) -> None:
        """Hear a part (L,) int16, and wait until it is recognised."""
        if self.has_ended:
            raise RefusedError(_GONE)
        most = self.live.limits.seconds
        if self.samples + len(samples) > most * self.rate:
            raise DataError(
                f"the recording is longer than the limit of {most:g} seconds; stop before, or start espnet-diverse "
                "demo with a larger --max_seconds"
            )
        self.parts += 1
        self.samples += len(samples)
        for part in (samples.astype(np.float32) / np.float32(2**15), *([None] if last else [])):
            self._given.put(part)
            self._wait()
            if self.has_ended and part is not None:  # it had waited for too long, a moment before
                raise RefusedError(_GONE)

    def answer(self) -> dict:
        """The answer to the page."""
        partial = join_texts([self.text, self.partial])[len(self.text) :]
        return {"text": self.text, "partial": partial, "heard": self.samples / self.rate}

    def _wait(self) -> None:
        """Wait until the thread has heard all that was given, or has ended."""
        if (fault := self._asked.get()) is not None:
            raise fault

    def _recognise(self) -> None:
        search, fault = self.live.search, None
        try:
            blocks = resample_blocks(self._blocks(), self.rate, search.rate)
            for result in transcribe_stream(search, blocks, self.live.segmentation):
                if result.is_final:
                    self.text = join_texts([self.text, result.text])
                self.partial = "" if result.is_final else result.text
        except Exception as error:  # of any kind: the request that waits raises it
            fault = error
        self.has_ended = True
        self._asked.put(fault)

    def _blocks(self) -> Iterator[NDArray]:
        while True:
            self._asked.put(None)
            try:
                part = self._given.get(timeout=self.live.idle_seconds)
            except Empty:
                return
            if part is None:
                return
            yield part


def live_recognition(
    search: Predictor, config_file: Path, limits: Limits, segmentation: SegmentationOptions
) -> LiveRecognition | None:
    """Live recognition with the loaded model of another search; None where it needs whole recordings.

    It does where encoder or decoder do not stream, and with hotwords, an n-gram model, another precision or compiled
    layers. ESPnet's attention in the model becomes one that several threads may use.

    Args:
        search: The other search, which may go on with the model at the same time.
        config_file: The model's config.yaml.
        limits: Limits of one recording.
        segmentation: Options of detecting utterances.
    """
    if search.compiled or search.precision != "float32" or isinstance(search.language_model, NgramScorer):
        return None
    try:
        check_streaming(vars(search.args), config_file)
        check_stream_options(search.options, Fusion(hotwords=search.hotwords))
    except (ConfigError, ModelError):
        return None
    for shared in filter(None, (search.encoding.model, search.language_model)):
        share_attention(shared)
    live = BlockSearch(search.encoding.model, search.args, search.options, search.device, search.language_model)
    return LiveRecognition(live, segmentation, limits)
