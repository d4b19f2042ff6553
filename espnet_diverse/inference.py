"""Speech or text in, text out, from a model folder or a packed model.

    recognizer = Recognizer("exp/model")
    print(recognizer.transcribe("talk.mp3").text)
    print(Translator("exp/mt_model").translate("guten Tag", target_language="en").text)

A `Recognizer` recognises speech or translates it, as its model was trained to; a `Translator` translates text. Threads
may share both.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from espnet_diverse.audio.sources import Source
from espnet_diverse.conditions import given
from espnet_diverse.decoding.condition_ids import completed, indices_of, warn_of_unused
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import BatchedSearch, load_batched_search
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.packing.archive import unpacked
from espnet_diverse.transcription.recordings import Request, Transcription
from espnet_diverse.transcription.result import Alternative, Transcript
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

__all__ = ["Options", "Recognizer", "Request", "SegmentationOptions", "Transcript", "Translation", "Translator"]


class Recognizer:
    """Transcribes recordings; with a model of speech translation, into another language.

    Args:
        model: Directory of a run, or a packed model.
        model_file: Weights, a path or a name in it; valid.acc.ave.pth by default.
        device: "cpu" or "cuda".
        precision: What linear maps compute in: "float32", "int8" or "bfloat16".
        compile: Whether encoder layers are compiled before they are used.
        segmentation: Options of splitting recordings into segments of speech.
        options: Of the search.

    Attributes:
        search: The search; its `conditions` are what the model knows of languages and domains.

    Raises:
        ConfigError: An option is not possible with this model or on this machine.
        ModelError: A file is missing or damaged, or it is no model of speech that can be searched in batches.
    """

    def __init__(
        self,
        model: str | Path,
        model_file: str | Path | None = None,
        *,
        device: str = "cpu",
        precision: str = "float32",
        compile: bool = False,
        segmentation: SegmentationOptions | None = None,
        options: Options | None = None,
    ):
        self.segmentation = segmentation or SegmentationOptions()
        self.segmentation.detector()  # raises if it is not installed
        self.search = _load(model, model_file, options, device, precision, compile)
        if self.search.task == "mt":
            raise ModelError(f"{model}: translates text, not speech; use Translator, or espnet-diverse translate")

    def transcribe(
        self,
        audio: Source,
        rate: int | None = None,
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
        word_timestamps: bool = False,
    ) -> Transcript:
        """Transcribe a recording.

        Args:
            audio: A path, "-" for standard input, a binary file object, or samples (T,) or (T, channels).
            rate: Of samples, in Hz.
            language: What is spoken; found where the model needs it and it is not given.
            target_language: What a translation is in.
            domain: What the recording is about.
            word_timestamps: Whether words are wanted, with times and confidences.

        Raises:
            ConfigError: There are no word times without CTC.
            DataError: The recording cannot be read, or a language or domain is unknown or missing.
        """
        request = Request(
            audio, rate, given({"language": language, "target_language": target_language, "domain": domain})
        )
        (result,) = self.transcribe_all([request], word_timestamps)
        if isinstance(result, Exception):
            raise result
        return result

    __call__ = transcribe

    def transcribe_all(
        self, requests: Iterable[Request], word_timestamps: bool = False
    ) -> Iterator[Transcript | Exception]:
        """Transcribe recordings, several in a batch; one result for each, in order.

        A recording that cannot be transcribed gives the error in place of a transcript, and changes nothing in the
        result of another. Memory holds a few batches, however many and however long recordings are.

        Raises:
            ConfigError: There are no word times without CTC.
        """
        return Transcription(self.search, self.segmentation, word_timestamps)(requests)


class Translation(NamedTuple):
    """A text in another language, its log score, the n best texts, best first, this one among them, and its tokens."""

    text: str
    score: float
    alternatives: tuple[Alternative, ...] = ()
    tokens: tuple[str, ...] = ()


class Translator:
    """Translates text; arguments, attributes and errors are those of `Recognizer`."""

    def __init__(
        self,
        model: str | Path,
        model_file: str | Path | None = None,
        *,
        device: str = "cpu",
        precision: str = "float32",
        compile: bool = False,
        options: Options | None = None,
    ):
        self.search = _load(model, model_file, options, device, precision, compile)
        if self.search.task != "mt":
            raise ModelError(f"{model}: reads speech, not text; use Recognizer, or espnet-diverse transcribe")

    def translate(
        self,
        text: str | Sequence[str],
        *,
        language: str | None = None,
        target_language: str | None = None,
        domain: str | None = None,
    ) -> Translation | list[Translation]:
        """Translate a text, or each of several. One of nothing but white space stays empty, with score 0.

        Args:
            text: A sentence, or several, as the model was trained with.
            language: What they are in.
            target_language: What their translations are to be in.
            domain: What they are about.

        Raises:
            DataError: A language or domain is unknown or missing.
        """
        if isinstance(text, str):
            return self._translate(
                [text], given({"language": language, "target_language": target_language, "domain": domain})
            )[0]
        return self._translate(
            text, given({"language": language, "target_language": target_language, "domain": domain})
        )

    __call__ = translate

    def _translate(self, texts: Sequence[str], given: dict[str, str]) -> list[Translation]:
        search = self.search
        warn_of_unused(search.conditions, given, same_language=False)
        indices = indices_of(search.conditions, completed(search.conditions, given, same_language=False))
        found = [Translation("", 0.0)] * len(texts)
        read = [(place, search.read(text)[0]) for place, text in enumerate(texts) if text.strip()]
        for batch in grouped(read, lambda one: len(one[1]), search.batch_size, search.batch_frames):
            results = search.batch([source for _, source in batch], [indices] * len(batch))
            for (place, _), best in zip(batch, results, strict=True):
                if best:
                    others = tuple(Alternative(each.text, each.score) for each in best)
                    found[place] = Translation(best[0].text, best[0].score, others, tuple(best[0].tokens))
        return found


def _load(
    model: str | Path,
    model_file: str | Path | None,
    options: Options | None,
    device: str,
    precision: str,
    compiled: bool,
) -> BatchedSearch:
    if options is not None and options.search == "espnet":
        raise ConfigError("search 'espnet' is not possible here; take batched or greedy, or use espnet-diverse decode")
    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        there = "cpu cuda" if torch.cuda.is_available() else "cpu"
        raise ConfigError(f"device {device!r} is not possible on this machine; possible: {there}")
    return load_batched_search(unpacked(Path(model)), model_file, options, device, precision, compiled)
