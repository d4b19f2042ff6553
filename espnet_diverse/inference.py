"""Transcription and translation in Python, with the model of a run or a packed model.

    recognizer = Recognizer("exp/model")
    print(recognizer.transcribe("talk.mp3").text)
    print(Translator("exp/mt_model").translate("guten Tag", target_language="en").text)

A `Recognizer` transcribes speech, or translates it where its model was trained to; a `Translator` translates text. Both
can be shared by threads: search options are arguments of a call.
"""

# ruff: noqa: E402 (modules that import ESPnet come after `fast_start`)
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.registration import fast_start

fast_start()  # as the commands: otherwise the import takes much longer, and asks the network for data of nltk
from espnet_diverse.audio.live import open_live
from espnet_diverse.audio.sources import Source, is_recording, live_blocks
from espnet_diverse.conditions import CONDITIONS, values_by_condition
from espnet_diverse.data.characters import clean_text
from espnet_diverse.decoding.condition_ids import completed, indices_of, warn_of_unused
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.options import (
    SPEECH_SEARCHES,
    TRANSLATION_SEARCHES,
    SearchOptions,
    SearchOptionsLike,
    options_of,
    with_keywords,
)
from espnet_diverse.decoding.predictor import Predictor, load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.hotwords import Hotwords
from espnet_diverse.errors import ConfigError, DataError, ModelError, abridged
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.transcription.recordings import Transcription
from espnet_diverse.transcription.result import Alternative, Segment, Translation
from espnet_diverse.transcription.segmentation_options import SegmentationOptions, segmentation_of
from espnet_diverse.transcription.streaming import StreamResult, transcribe_stream
from espnet_diverse.transcription.transcript import Request, Transcript

if TYPE_CHECKING:  # it imports what only streaming needs
    from espnet_diverse.decoding.streaming.block_search import BlockSearch

__all__ = [
    "Fusion",
    "SearchOptions",
    "Recognizer",
    "Request",
    "Segment",
    "SegmentationOptions",
    "StreamRecognizer",
    "StreamResult",
    "Transcript",
    "Translation",
    "Translator",
]

OnProgress = Callable[[float, float], None]
"""Called with the seconds of a recording that are done, and its length in seconds."""

_TRANSLATING = ("language", "target_language", "domain", "options")
_TRANSCRIBING = (*_TRANSLATING, "rate", "word_timestamps", "hotwords", "on_progress")
"""Arguments of a call, for the advice about an unknown one."""


class _Pretrained[Search: Predictor | BlockSearch]:
    model: str
    search: Search

    def __repr__(self) -> str:
        search, known = self.search, self.search.conditions.names
        rate = f", {search.rate} Hz" if search.rate else ""
        values = (f", {CONDITIONS[name].label}: {abridged(names, 10, ' ')}" for name, names in known.items())
        return f"<{type(self).__name__} {self.model}: {search.task}{rate}, {search.device}{''.join(values)}>"

    @classmethod
    def from_pretrained(cls, name: str, **options: Any) -> Self:
        """Load a model by its name on the Hugging Face Hub, hf:owner/name; the extra `hub` fetches it.

        Args:
            name: hf:owner/name; the constructor takes it as well.
            options: Other arguments of the constructor.
        """
        make: Callable[..., Self] = cls
        return make(name, **options)


class Recognizer(_Pretrained[Predictor]):
    """Transcribes recordings; with a model of speech translation, translates them.

    Args:
        model: Directory of a run, a packed model, or hf:owner/name for a repository of the Hugging Face Hub.
        model_file: Weights, as a path or a name in the model directory; by default valid.acc.ave.pth.
        device: "cpu", "cuda" or "cuda:N".
        precision: Precision of linear layers: "float32", "int8" or "bfloat16".
        compile: Whether to compile the encoder layers.
        segmentation: Options of splitting recordings into segments of speech, or a mapping of some.
        options: Default search options, as `SearchOptions` or a mapping such as {"beam_size": 5}.
        fusion: Language model and hotwords of the search.

    Attributes:
        model: Name of the model, as given.
        search: The loaded `Predictor`; its `conditions` are the languages and domains that the model knows.

    Raises:
        ConfigError: An option is not possible with this model or on this machine.
        ModelError: A file is missing or damaged, or the model is not a speech model that a search supports.
    """

    def __init__(
        self,
        model: str | Path,
        model_file: str | Path | None = None,
        *,
        device: str = "cpu",
        precision: str = "float32",
        compile: bool = False,
        segmentation: SegmentationOptions | Mapping[str, Any] | None = None,
        options: SearchOptionsLike = None,
        fusion: Fusion | None = None,
    ):
        self.model, self.segmentation = str(model), segmentation_of(segmentation)
        options = options_of(options, searches=SPEECH_SEARCHES)
        self.search = load_predictor(unpacked(Path(model)), model_file, options, device, precision, compile, fusion)
        if self.search.task == "mt":
            raise ModelError(f"{model}: translates text, not speech; use Translator, or espnet-diverse translate")
        if self.segmentation.vad == "whisper":
            self._transcription(False, None, None)  # refuses other models

    def transcribe(
        self,
        audio: Source,
        rate: int | None = None,
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        word_timestamps: bool = False,
        options: SearchOptionsLike = None,
        hotwords: Hotwords | None = None,
        on_progress: OnProgress | None = None,
        **search: Any,
    ) -> Transcript:
        """Transcribe a recording.

        Args:
            audio: A path, "-" for standard input, a binary file object, the content of a file, or samples (T,) or
                (T, channels), also as a pair of samples and rate, as a mapping with "array" and "sampling_rate", or as
                a decoder of torchcodec.
            rate: Sampling rate of samples in Hz.
            language: Spoken language. Where the model needs it and it is not given, it is identified.
            target_language: Language of a translation.
            domain: Domain of the recording.
            word_timestamps: Whether to return words with times and confidences.
            options: Search options of this call (default: the constructor's). A mapping changes some of them.
            hotwords: Phrases that get a bonus in this call, or the path of a file with one per line; they replace the
                constructor's.
            on_progress: Called with the seconds that are done and the length of the recording in seconds.
            search: Search options by name, such as beam_size=3, in addition to `options`.

        Raises:
            ConfigError: Word timestamps are requested and the model has neither CTC nor heads that align, or a search
                option is not possible.
            DataError: The recording cannot be read, or a language or domain is unknown or missing.
        """
        names = values_by_condition({"language": language, "target_language": target_language, "domain": domain})
        request = Request(audio, rate, names, on_progress)
        options = with_keywords(options, search, _TRANSCRIBING)
        (result,) = self.transcribe_all([request], word_timestamps, options, hotwords)
        if isinstance(result, Exception):
            raise result
        return result

    __call__ = transcribe

    def segments(
        self,
        audio: Source,
        rate: int | None = None,
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        word_timestamps: bool = False,
        options: SearchOptionsLike = None,
        hotwords: Hotwords | None = None,
        on_progress: OnProgress | None = None,
        **search: Any,
    ) -> Iterator[Segment]:
        """Transcribe a recording, and yield its segments in order as they are decoded, `batch_size` at a time.

        Takes the same arguments and raises the same errors as `transcribe`; the last digits of scores may differ.
        """
        names = values_by_condition({"language": language, "target_language": target_language, "domain": domain})
        options = with_keywords(options, search, _TRANSCRIBING)
        transcription = self._transcription(word_timestamps, options, hotwords)
        return transcription.segments(Request(audio, rate, names, on_progress))

    def transcribe_all(
        self,
        requests: Iterable[Request | Source],
        word_timestamps: bool = False,
        options: SearchOptionsLike = None,
        hotwords: Hotwords | None = None,
    ) -> Iterator[Transcript | Exception]:
        """Transcribe recordings, several in a batch; one result for each, in order.

        For a recording that cannot be transcribed, the result is the exception; the other results do not change.
        Memory holds a few batches, however many recordings there are and however long they are.

        Args:
            requests: The recordings: paths and file objects, or requests.
            word_timestamps: Whether to return words with times and confidences.
            options: Search options of this call, as for `transcribe`.
            hotwords: Hotwords of this call, as for `transcribe`.

        Raises:
            ConfigError: Word timestamps are requested and the model has neither CTC nor heads that align, or a search
                option is not possible.
            DataError: `requests` is a single recording, or nothing that can be iterated over.
        """
        if is_recording(requests) or not isinstance(requests, Iterable):
            description = requests if isinstance(requests, str | Path) else f"a {type(requests).__name__}"
            raise DataError(f"{description}: transcribe_all takes several recordings; give a list, or use transcribe")
        transcription = self._transcription(word_timestamps, options, hotwords)
        return transcription(request if isinstance(request, Request) else Request(request) for request in requests)

    def _transcription(self, timed: bool, options: SearchOptionsLike, hotwords: Hotwords | None) -> Transcription:
        chosen = options_of(options, self.search.options)
        return Transcription(self.search, self.segmentation, timed, chosen, hotwords)


class StreamRecognizer(_Pretrained["BlockSearch"]):
    """Transcribes streams while they are spoken; one at a time.

    Args:
        model: A model as for `Recognizer`, with a contextual block encoder or one with a memory.
        model_file: Weights, as for `Recognizer`.
        device: "cpu", "cuda" or "cuda:N".
        segmentation: Options of detecting utterances, or a mapping of some.
        options: Search options, as for `Recognizer`.
        fusion: Language model and hotwords of the search.
        conditions: Values by condition, such as {"lang": "es"}, for models that depend on conditions.

    Attributes:
        model: Name of the model, as given.
        search: The loaded `BlockSearch`; `search.rate` is the sampling rate of its audio.

    Raises:
        ConfigError: An option is not possible while streaming, or with this model or on this machine.
        DataError: A value of a condition is unknown or missing.
        ModelError: A file is missing or damaged, or the model does not stream.
    """

    def __init__(
        self,
        model: str | Path,
        model_file: str | Path | None = None,
        *,
        device: str = "cpu",
        segmentation: SegmentationOptions | Mapping[str, Any] | None = None,
        options: SearchOptionsLike = None,
        fusion: Fusion | None = None,
        conditions: Mapping[str, str] | None = None,
    ):
        from espnet_diverse.decoding.streaming.block_search import load_block_search  # imports what streaming needs

        self.model, self.segmentation = str(model), segmentation_of(segmentation)
        for name, enabled in (("whole", self.segmentation.whole), ("vad whisper", self.segmentation.vad == "whisper")):
            if enabled:
                raise ConfigError(f"{name} is not possible while streaming; leave it out")
        self.search = load_block_search(unpacked(Path(model)), model_file, options_of(options), device, fusion)
        known, values = self.search.conditions, conditions or {}
        warn_of_unused(known, values, same_language=True)
        self.search.indices = indices_of(known, completed(known, values, same_language=True))

    def listen(self, source: str, pcm_rate: int | None = None, real_time: bool = False) -> Iterator[StreamResult]:
        """Transcribe a file, a FIFO or standard input as it comes; see `open_live` for arguments and errors."""
        with open_live(source, pcm_rate, self.search.rate, real_time=real_time) as blocks:
            yield from self.stream(blocks)

    def stream(self, blocks: Iterable[NDArray[np.generic]], rate: int | None = None) -> Iterator[StreamResult]:
        """Transcribe blocks of samples as they come; memory does not grow with their number.

        Args:
            blocks: Blocks (L,) or (L, channels), int16, int32, or floating-point between -1 and 1.
            rate: Their sampling rate in Hz; by default `search.rate`.

        Yields:
            A result whenever the text of the utterance changes, and one when it ends.

        Raises:
            ConfigError: Another stream has begun since.
            DataError: The rate is impossible, or a block has another type or shape, or samples that are not scaled.
        """
        return transcribe_stream(self.search, live_blocks(blocks, rate, self.search.rate), self.segmentation)


class Translator(_Pretrained[Predictor]):
    """Translates text; has the arguments (except `segmentation`), attributes and errors of `Recognizer`.

    A ModelError is also raised for a model that reads speech.
    """

    def __init__(
        self,
        model: str | Path,
        model_file: str | Path | None = None,
        *,
        device: str = "cpu",
        precision: str = "float32",
        compile: bool = False,
        options: SearchOptionsLike = None,
        fusion: Fusion | None = None,
    ):
        self.model = str(model)
        options = options_of(options, searches=TRANSLATION_SEARCHES)
        self.search = load_predictor(unpacked(Path(model)), model_file, options, device, precision, compile, fusion)
        if self.search.task != "mt":
            raise ModelError(f"{model}: reads speech, not text; use Recognizer, or espnet-diverse transcribe")

    @overload
    def translate(
        self,
        text: str,
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        options: SearchOptionsLike = None,
        **search: Any,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        text: list[str] | tuple[str, ...],
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        options: SearchOptionsLike = None,
        **search: Any,
    ) -> list[Translation]: ...
    def translate(
        self,
        text: str | Sequence[str],
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        options: SearchOptionsLike = None,
        **search: Any,
    ) -> Translation | list[Translation]:
        """Translate a text, or several.

        A text of white space or invisible characters alone gives an empty translation with score 0. If no translation
        is found within the length limits of the options, the result is empty, with score -inf.

        Args:
            text: A sentence in the form of the training data, or several.
            language: Language of the text.
            target_language: Language of the translation.
            domain: Domain of the text.
            options: Search options of this call, as for `Recognizer.transcribe`.
            search: Search options by name, in addition to `options`.

        Raises:
            ConfigError: A search option is not possible with this model.
            DataError: A text is of another type or too long, see `Predictor.read`, or a language or domain is unknown
                or missing.
        """
        names = values_by_condition({"language": language, "target_language": target_language, "domain": domain})
        texts = list(text) if isinstance(text, Iterable) and not isinstance(text, str | bytes) else [text]
        if strange := [type(one).__name__ for one in texts if not isinstance(one, str)]:
            raise DataError(f"a text is a {strange[0]}; give a text as str, or a list of them")
        translations = self._translate(texts, names, with_keywords(options, search, _TRANSLATING))
        return translations[0] if isinstance(text, str) else translations

    __call__ = translate

    def _translate(self, texts: Sequence[str], values: dict[str, str], options: SearchOptionsLike) -> list[Translation]:
        search, options = self.search, self.search.resolve(options_of(options, self.search.options))
        warn_of_unused(search.conditions, values, same_language=False, warned=search.warned)
        indices = indices_of(search.conditions, completed(search.conditions, values, same_language=False))
        cleaned = [clean_text(text)[0] for text in texts]  # as the tables of training data are
        translations = [Translation("", float("-inf") if text else 0.0) for text in cleaned]
        read = [(place, search.read(text)[0]) for place, text in enumerate(cleaned) if text]
        for batch in grouped(read, lambda one: len(one[1]), options.batch_size, search.batch_frames):
            results = search.batch([source for _, source in batch], [indices] * len(batch), options)
            for (place, _), best in zip(batch, results, strict=True):
                if best:
                    alternatives = tuple(Alternative(hypothesis.text, hypothesis.score) for hypothesis in best)
                    translations[place] = Translation(best[0].text, best[0].score, alternatives, tuple(best[0].tokens))
        return translations
