"""Services of the page for speech and for text, each with one model, one request at a time."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from numpy.typing import NDArray

from espnet_diverse.audio.suffixes import DIRECT, SUFFIXES
from espnet_diverse.conditions import as_arguments, values_by_condition
from espnet_diverse.data.characters import clean_text
from espnet_diverse.decoding.condition_ids import completed
from espnet_diverse.decoding.options import SearchOptions, text_task
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.hotwords import split_hotwords, usable_hotwords
from espnet_diverse.demo.controls import condition_controls, search_options
from espnet_diverse.demo.results import DecodedSegment, Results
from espnet_diverse.errors import DataError
from espnet_diverse.inference import Recognizer, Translation, Translator
from espnet_diverse.packing.model_card import WHAT, model_rows, scored_sets
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import read_config
from espnet_diverse.scoring.score_file import read_metrics
from espnet_diverse.serve.bodies import samples_of
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.live import LiveRecognition, live_recognition
from espnet_diverse.transcription.alignment import has_word_times
from espnet_diverse.transcription.formats import written
from espnet_diverse.transcription.result import Segment
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.transcript import Transcript

log = logging.getLogger(__name__)

_NBEST = 5
_FILES = ("srt", "vtt", "txt", "json")


class ModelService(ABC):
    """Serves the requests of the page with one model.

    Requests run one at a time, in the order in which they get the lock; live recordings, which cannot wait, run at the
    same time. A request's search options are passed down as arguments, so that requests do not change each other.

    Args:
        name: Name of the model.
        search: Predictor of the recognizer or translator.
        results: Store of the last results.
        limits: Limits of one request.

    Attributes:
        options: Search options of a request that does not choose any.
        live: Streaming recognition; None if the model needs whole recordings.
    """

    def __init__(self, name: str, search: Predictor, results: Results, limits: Limits):
        self.name, self.search, self.results, self.limits = name, search, results, limits
        self.options = search.options
        self.live: LiveRecognition | None = None
        self._lock = Lock()

    def about(self) -> dict:
        """Describe the model to the page: name, task, facts, audio, conditions, defaults and limits."""
        beam_size = self.options.beam_size
        return {
            "name": self.name,
            "task": self.search.task,
            "rate": self.search.rate,
            "suffixes": {"all": sorted(SUFFIXES), "direct": sorted(DIRECT)},
            "live": self.live is not None,
            "description": f"{WHAT[self.search.task][0]}.",
            "facts": self._facts(),
            "conditions": condition_controls(self.search.conditions, self.search.task, self.search.translates),
            "beam_size": beam_size,
            "nbest": min(_NBEST, beam_size),
            "limits": {
                "seconds": self.limits.seconds,
                "megabytes": self.limits.megabytes,
                "characters": self.limits.characters,
            },
        }

    def run(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Transcribe a recording, or translate a text.

        Args:
            body: An audio file, or a text in UTF-8.
            choices: `beam_size`, `nbest`, `hotwords` of a recording between commas, and the arguments of
                `condition_controls`.

        Returns:
            `id` for `heads`, `text`, processing time in `seconds`, `duration` of the audio, the languages `found`,
            the hotwords that were `left_out`, `segments`, and the content of `files` by format.

        Raises:
            ConfigError: A choice is not possible.
            DataError: The body cannot be read or is too long, or a language is unknown.
        """
        options = search_options(self.options, choices)
        with self._lock:
            began = time.monotonic()
            answer = self._run(body, choices, options)
            return {"duration": 0.0, "found": [], "left_out": [], "seconds": time.monotonic() - began, **answer}

    def heads(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Map attention heads on a result; see `Results.heads`."""
        with self._lock:
            return self.results.heads(choices)

    def _facts(self) -> list[tuple[str, str]]:
        """Name and value of facts about the model from the files of the run: rows of its card, without options of its
        attentions, and its scores.
        """
        config = {**vars(self.search.args), "task": self.search.task}
        scores = {}
        for folder, path in scored_sets(self.results.model_dir, Path(self.search.used["model_file"]).stem):
            try:
                metrics = read_metrics(path)
            except DataError as error:
                log.warning("%s", error)
                continue
            overall = (f"{metric.upper()} {groups['overall']['score']:.1f}" for metric, groups in metrics.items())
            scores[f"scores of {folder}"] = ", ".join(overall)
        rows = model_rows(config, self.search.parameters)
        short = {name: value.partition(",")[0] if name.endswith("attention") else value for name, value in rows.items()}
        return [*short.items(), *scores.items()]

    @abstractmethod
    def _run(self, body: bytes, choices: Mapping[str, str], options: SearchOptions) -> dict: ...


class SpeechService(ModelService):
    """Transcribes or translates recordings."""

    def __init__(
        self, name: str, recognizer: Recognizer, results: Results, limits: Limits, live: LiveRecognition | None = None
    ):
        super().__init__(name, recognizer.search, results, limits)
        self.recognizer, self.live = recognizer, live
        self.has_words = has_word_times(recognizer.search)

    def _run(self, body: bytes, choices: Mapping[str, str], options: SearchOptions) -> dict:
        name = choices.get("name") or "the recording"
        samples = samples_of(body, name, self.limits.seconds, self.search.rate)
        phrases = split_hotwords(choices.get("hotwords", ""))
        hotwords = usable_hotwords(phrases, self.search.tokens) if self.search.has_hotwords else ()
        words, conditions = self.has_words, as_arguments(values_by_condition(choices))
        transcript = self.recognizer.transcribe(
            samples, self.search.rate, word_timestamps=words, options=options, hotwords=hotwords or None, **conditions
        )
        segments = [
            _kept_segment(samples, self.search.rate, transcript, index) for index in range(len(transcript.segments))
        ]
        left_out = [phrase for phrase in phrases if phrase not in hotwords]
        return {"id": self.results.keep(segments), "left_out": left_out, **answer_of(transcript, name)}


class TextService(ModelService):
    """Translates texts that have one sentence per line."""

    def __init__(self, name: str, translator: Translator, results: Results, limits: Limits):
        super().__init__(name, translator.search, results, limits)
        self.translator = translator

    def _run(self, body: bytes, choices: Mapping[str, str], options: SearchOptions) -> dict:
        lines = _lines(body, self.limits.characters)
        translations = self.translator.translate(lines, options=options, **as_arguments(values_by_condition(choices)))
        names = completed(self.search.conditions, values_by_condition(choices), same_language=False)
        segments = [
            DecodedSegment(line, one.tokens, names, f"line {index}")
            for index, (line, one) in enumerate(zip(lines, translations, strict=True), 1)
        ]
        text = "\n".join(one.text for one in translations)
        return {
            "id": self.results.keep(segments),
            "text": text,
            "files": {"txt": f"{text}\n"},
            "segments": [_translated(line, one) for line, one in zip(lines, translations, strict=True)],
        }


def load_service(
    model: Path,
    model_file: str | Path | None,
    limits: Limits,
    segmentation: SegmentationOptions,
    device: str = "cpu",
    precision: str = "float32",
    compile: bool = False,
    fusion: Fusion | None = None,
) -> ModelService:
    """Load a model and create its service.

    Args:
        model: Directory of a run, or a packed model.
        model_file: Weights, as a path or a name in the model directory.
        limits: Limits of one request.
        segmentation: Options of splitting recordings into segments of speech.
        device: "cpu", "cuda" or "cuda:N".
        precision: Precision of linear layers.
        compile: Whether to compile the encoder layers.
        fusion: Language model and hotwords of the search.

    Raises:
        ConfigError: The device, the precision or the segmentation is not possible.
        ModelError: A file is missing or damaged, or the model writes no text.
    """
    how = {"device": device, "precision": precision, "compile": compile, "fusion": fusion}
    folder = unpacked(model)
    config_file = folder / "config.yaml"
    task = text_task(read_config(config_file), config_file)
    name = model.stem if model.is_file() else model.resolve().name
    if task == "mt":
        translator = Translator(folder, model_file, **how)
        return TextService(name, translator, Results(translator.search, folder, model_file), limits)
    recognizer = Recognizer(folder, model_file, segmentation=segmentation, **how)
    live = live_recognition(recognizer.search, config_file, limits, segmentation)
    results = Results(recognizer.search, folder, model_file, shared=live is not None)
    return SpeechService(name, recognizer, results, limits, live)


def answer_of(transcript: Transcript, name: str) -> dict:
    """Answer to the page for the transcript of a recording called `name`, see `ModelService.run`."""
    probabilities = transcript.language_probabilities or {}
    return {
        "text": transcript.text,
        "duration": transcript.duration,
        "found": [{"name": name, "probability": probability} for name, probability in probabilities.items()],
        "segments": [_segment(segment) for segment in transcript.segments],
        "files": {format: written(transcript, Path(name).stem, format) for format in _FILES},
    }


def _kept_segment(samples: NDArray, rate: int, transcript: Transcript, index: int) -> DecodedSegment:
    segment = transcript.segments[index]
    part = samples[round(segment.start * rate) : round(segment.end * rate)]
    return DecodedSegment(part, segment.tokens, transcript.conditions, f"segment {index + 1}", segment.start)


def _segment(segment: Segment) -> dict:
    return {
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "ctc_support": segment.ctc_support,
        "may_be_invented": segment.may_be_invented,
        "words": [asdict(word) for word in segment.words],
        "alternatives": [asdict(alternative) for alternative in segment.alternatives],
    }


def _lines(body: bytes, max_characters: int) -> list[str]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("the text is not valid UTF-8; send it in UTF-8") from error
    if len(text) > max_characters:
        raise DataError(f"the text has {len(text)} characters; the limit is {max_characters}; translate it in parts")
    return [line for line in (clean_text(line)[0] for line in text.splitlines()) if line]


def _translated(line: str, translation: Translation) -> dict:
    alternatives = [asdict(alternative) for alternative in translation.alternatives]
    return {"source": line, "text": translation.text, "words": [], "alternatives": alternatives}
