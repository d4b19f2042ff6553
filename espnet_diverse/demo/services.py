"""The services of models of speech and of text."""

from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.conditions import CONDITIONS, given
from espnet_diverse.decoding.condition_ids import completed
from espnet_diverse.decoding.options import text_task
from espnet_diverse.decoding.predictor import BatchedSearch
from espnet_diverse.demo.limits import Limits
from espnet_diverse.demo.results import Results, Stretch
from espnet_diverse.demo.service import ModelService
from espnet_diverse.errors import DataError, UserError
from espnet_diverse.inference import Recognizer, Translation, Translator
from espnet_diverse.packing.archive import unpacked
from espnet_diverse.training.tasks import read_config
from espnet_diverse.transcription.alignment import check_ctc, frame_times
from espnet_diverse.transcription.result import Segment, Transcript
from espnet_diverse.transcription.segmentation_options import SegmentationOptions


class SpeechService(ModelService):
    """Recognises recordings, or translates them."""

    def __init__(self, name: str, recognizer: Recognizer, results: Results, limits: Limits):
        super().__init__(name, recognizer.search, results, limits)
        self.recognizer = recognizer
        self.has_words = _has_words(recognizer.search)

    def _run(self, body: bytes, choices: Mapping[str, str]) -> dict:
        samples = _samples(body, choices.get("name") or "the recording", self.limits.seconds)
        transcript = self.recognizer.transcribe(samples, RATE, word_timestamps=self.has_words, **_arguments(choices))
        kept = [_stretch(samples, transcript, index) for index in range(len(transcript.segments))]
        found = transcript.language_probabilities or {}
        return {
            "id": self.results.keep(kept),
            "text": transcript.text,
            "duration": transcript.duration,
            "found": [{"name": name, "probability": probability} for name, probability in found.items()],
            "segments": [_segment(segment) for segment in transcript.segments],
        }


class TextService(ModelService):
    """Translates texts, a sentence a line."""

    def __init__(self, name: str, translator: Translator, results: Results, limits: Limits):
        super().__init__(name, translator.search, results, limits)
        self.translator = translator

    def _run(self, body: bytes, choices: Mapping[str, str]) -> dict:
        lines = _lines(body, self.limits.characters)
        found = self.translator.translate(lines, **_arguments(choices))
        names = completed(self.search.conditions, given(choices), same_language=False)
        kept = [
            Stretch(line, one.tokens, names, f"line {index}")
            for index, (line, one) in enumerate(zip(lines, found, strict=True), 1)
        ]
        return {
            "id": self.results.keep(kept),
            "text": "\n".join(one.text for one in found),
            "segments": [_translated(line, one) for line, one in zip(lines, found, strict=True)],
        }


def load_service(
    model: Path,
    model_file: str | Path | None,
    limits: Limits,
    segmentation: SegmentationOptions,
    device: str = "cpu",
    precision: str = "float32",
) -> ModelService:
    """The service of a model of speech or text; arguments as of `Recognizer`.

    Raises:
        ConfigError: The device, the precision or the segmentation is not possible.
        ModelError: A file is missing or damaged, or the model writes no text.
    """
    folder = unpacked(model)
    config_file = folder / "config.yaml"
    task = text_task(read_config(config_file), config_file)
    name = model.stem if model.is_file() else model.resolve().name
    results = Results(folder, model_file, task)
    if task == "mt":
        translator = Translator(folder, model_file, device=device, precision=precision)
        return TextService(name, translator, results, limits)
    recognizer = Recognizer(folder, model_file, device=device, precision=precision, segmentation=segmentation)
    return SpeechService(name, recognizer, results, limits)


def _arguments(choices: Mapping[str, str]) -> dict[str, str]:
    """Of `Recognizer.transcribe` and `Translator.translate`: the names that were chosen."""
    return {CONDITIONS[name].argument: value for name, value in given(choices).items()}


def _has_words(search: BatchedSearch) -> bool:
    """Whether times of words can be had."""
    try:
        check_ctc(search.ctc)
        frame_times(search.encoding.model)
    except UserError:
        return False
    return True


def _samples(body: bytes, name: str, longest: float) -> NDArray:
    upload = BytesIO(body)
    upload.name = name
    with open_audio(upload) as audio:
        if audio.duration > longest:
            raise DataError(
                f"{name} lasts {audio.duration:.1f} seconds, and at most {longest:g} are taken; cut it, or start "
                "espnet-diverse demo with a larger --max_seconds"
            )
        return np.concatenate(list(audio.blocks()))


def _stretch(samples: NDArray, transcript: Transcript, index: int) -> Stretch:
    segment = transcript.segments[index]
    part = samples[round(segment.start * RATE) : round(segment.end * RATE)]
    return Stretch(part, segment.tokens, transcript.conditions, f"segment {index + 1}")


def _segment(segment: Segment) -> dict:
    return {
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "words": [asdict(word) for word in segment.words],
        "alternatives": [asdict(alternative) for alternative in segment.alternatives],
    }


def _lines(body: bytes, most: int) -> list[str]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("the text is not utf-8") from error
    if len(text) > most:
        raise DataError(f"the text has {len(text)} characters, and at most {most} are taken; translate it in parts")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _translated(line: str, translation: Translation) -> dict:
    others = [asdict(alternative) for alternative in translation.alternatives]
    return {"source": line, "text": translation.text, "words": [], "alternatives": others}
