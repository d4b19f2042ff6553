"""Models by name, which are loaded when they are first requested."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from espnet_diverse.decoding.options import SEARCHED_TASKS, text_task
from espnet_diverse.decoding.search.hotwords import usable_hotwords
from espnet_diverse.errors import UserError
from espnet_diverse.inference import Recognizer
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import read_config
from espnet_diverse.serve.application import in_thread
from espnet_diverse.serve.batches import Batches, Kind
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.live import LiveRecognition, live_recognition
from espnet_diverse.serve.refusals import RefusedError, busy
from espnet_diverse.transcription.recordings import Transcription
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.transcript import Request, Transcript

log = logging.getLogger(__name__)

OPENAIS = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe")
"""Names of OpenAI's models that clients send by default."""


class Model:
    """A loaded model.

    Args:
        recognizer: The recognizer.
        limits: Limits of its queue.
        batch_size: Maximum number of recordings, and of their segments, that are searched together.
        wait: Seconds that a recording waits for others.
        live: Streaming recognition; None where the model needs whole recordings.

    Attributes:
        batches: The queue of recordings.
        users: Number of requests that use the model and are not in the queue.
    """

    def __init__(
        self, recognizer: Recognizer, limits: Limits, batch_size: int, wait: float, live: LiveRecognition | None = None
    ):
        self.recognizer, self.search, self.live = recognizer, recognizer.search, live
        self.options = replace(self.search.options, batch_size=batch_size)
        self.batches = Batches(self.transcribe, limits, batch_size, wait)
        self.users = 0

    @property
    def transcribes(self) -> bool:
        """Whether the model writes the text in the spoken language."""
        return self.search.task != "st"

    @property
    def translates(self) -> bool:
        """Whether the model can translate."""
        return self.search.task == "st" or self.search.translates

    @property
    def is_idle(self) -> bool:
        """Whether no request uses the model."""
        return not self.users and self.batches.is_idle

    def usable_hotwords(self, phrases: Iterable[str]) -> tuple[str, ...]:
        """The phrases that can be hotwords: hints that the model cannot use must not break a request."""
        return usable_hotwords(phrases, self.search.tokens) if self.search.has_hotwords else ()

    def transcribe(self, requests: Sequence[Request], kind: Kind) -> Iterator[Transcript | Exception]:
        """Transcribe recordings together; see `Batches`."""
        hotwords = kind.hotwords or None
        segmentation = self.recognizer.segmentation
        return Transcription(self.search, segmentation, kind.word_timestamps, self.options, hotwords)(requests)


class Models:
    """Models by name; to load another one, the least recently used of the loaded models is dropped.

    Args:
        names: Names of the models.
        load: Loads the model with a name.
        most: Maximum number of models that are loaded at a time.
    """

    def __init__(self, names: Sequence[str], load: Callable[[str], Model], most: int):
        self.names, self.load, self.most = names, load, most
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        self._lock = asyncio.Lock()

    def known(self, name: str) -> str:
        """The name of a model that a request means; if there is only one, it is also meant by "" and by `OPENAIS`.

        Raises:
            RefusedError: There is no such model.
        """
        if len(self.names) == 1 and (not name or name in OPENAIS):
            return self.names[0]
        if not name:
            raise RefusedError(
                HTTPStatus.BAD_REQUEST, f"model is missing; give one of {' '.join(self.names)}", param="model"
            )
        if name not in self.names:
            message = f"model {name!r} does not exist; known: {' '.join(self.names)}"
            raise RefusedError(HTTPStatus.NOT_FOUND, message, "model_not_found", "model")
        return name

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Model]:
        """Use a model within a block; for the name see `known`.

        Raises:
            RefusedError: There is no such model, it cannot be loaded, or all loaded models are in use.
        """
        name = self.known(name)
        model = self._loaded.get(name)
        if model is None:
            # Also for those who ask next if this request ends meanwhile: a thread that loads cannot be stopped.
            finding = asyncio.ensure_future(self._found(name))
            try:
                model = await asyncio.shield(finding)
            except asyncio.CancelledError:
                finding.add_done_callback(_leave)
                raise
        else:
            model.users += 1
        try:
            self._loaded.move_to_end(name)
            yield model
        finally:
            model.users -= 1

    async def _found(self, name: str) -> Model:
        """The model, with one more user: a request that waits for the lock must not drop it before it is used."""
        async with self._lock:
            model = self._loaded.get(name) or await self._load(name)
            model.users += 1
            return model

    async def _load(self, name: str) -> Model:
        if len(self._loaded) >= self.most:
            oldest = next((other for other, model in self._loaded.items() if model.is_idle), None)
            if oldest is None:
                raise busy(f"model {name!r} is not loaded, and the loaded ones are in use; try again later", "models")
            self._loaded.pop(oldest).batches.close()
        try:
            model = await in_thread(self.load, name)
        except UserError as error:  # its message names paths of the server
            log.error("model %s: %s", name, error)
            message = f"model {name!r} cannot be loaded; see the terminal of the server for details"
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, message) from error
        self._loaded[name] = model
        return model


def _leave(finding: "asyncio.Future[Model]") -> None:
    """Take back the use of a model whose request ended before it was loaded."""
    if not finding.cancelled() and finding.exception() is None:
        finding.result().users -= 1


def load_model(
    folder: Path,
    limits: Limits,
    segmentation: SegmentationOptions,
    batch_size: int,
    wait: float,
    device: str = "cpu",
    precision: str = "float32",
    compile: bool = False,
) -> Model:
    """Load a model of speech from its directory; takes the same other arguments as `Model` and `Recognizer`.

    Raises:
        ConfigError: An option is not possible with this model or on this machine.
        ModelError: A file is missing or damaged, or the model reads text.
    """
    recognizer = Recognizer(folder, device=device, precision=precision, compile=compile, segmentation=segmentation)
    live = live_recognition(recognizer.search, folder / "config.yaml", limits, segmentation)
    return Model(recognizer, limits, batch_size, wait, live)


def speech_model(path: Path) -> Path:
    """The directory of a model that reads speech; the model is unpacked but not loaded.

    Raises:
        ModelError: A file is missing or damaged, or the model does not read speech.
    """
    folder = unpacked(path)
    config_file = folder / "config.yaml"
    text_task(read_config(config_file), config_file, [task for task in SEARCHED_TASKS if task != "mt"])
    return folder
