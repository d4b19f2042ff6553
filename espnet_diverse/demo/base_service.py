"""Base class of the services of the page: requests to one model, served one at a time.

`task_services.py` has the services of speech and of text.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from threading import Lock

from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.demo.controls import condition_controls, search_options
from espnet_diverse.demo.results import Results
from espnet_diverse.packing.model_card import model_rows, run_scores
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.live import LiveRecognition

_TASK_NAMES = {"asr": "Speech recognition", "st": "Speech translation", "mt": "Text translation"}
_NBEST = 5


class ModelService(ABC):
    """Serves the requests of the page with one model.

    Requests run one at a time, in the order in which they get the lock; those of a live recording, which cannot wait,
    run beside them. A request's search options are passed down as arguments, so that a request does not change another
    one.

    Args:
        name: Name of the model.
        search: Predictor of the recognizer or translator.
        results: Store of the last results.
        limits: Limits of one request.

    Attributes:
        options: Search options of a request that chooses none.
        live: Recognition while somebody speaks; None where the model needs whole recordings.
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
            "live": self.live is not None,
            "description": f"{_TASK_NAMES[self.search.task]}.",
            "facts": self._facts(),
            "conditions": condition_controls(self.search.conditions, self.search.task),
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
            `segments`, and the content of `files` by format.

        Raises:
            ConfigError: A choice is not possible.
            DataError: The body cannot be read or is too long, or a language is unknown.
        """
        options = search_options(self.options, choices)
        with self._lock:
            began = time.monotonic()
            answer = self._run(body, choices, options)
            return {"duration": 0.0, "found": [], "seconds": time.monotonic() - began, **answer}

    def heads(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Map attention heads on a result; see `Results.heads`."""
        with self._lock:
            return self.results.heads(choices)

    def _facts(self) -> list[tuple[str, str]]:
        """Name and value of what the files of the run tell about the model: rows of its card, without options of its
        attentions, and its scores.
        """
        config = {**vars(self.search.args), "task": self.search.task}
        scores = {
            f"scores of {folder}": ", ".join(
                f"{metric.upper()} {groups['overall']['score']:.1f}" for metric, groups in each.items()
            )
            for folder, each in run_scores(self.results.model_dir)
        }
        rows = model_rows(config, self.search.parameters)
        short = {name: value.partition(",")[0] if name.endswith("attention") else value for name, value in rows.items()}
        return [*short.items(), *scores.items()]

    @abstractmethod
    def _run(self, body: bytes, choices: Mapping[str, str], options: Options) -> dict: ...
