"""What the page asks for: a model behind a lock, so that it serves one request at a time and the others wait."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from threading import Lock

from espnet_diverse.decoding.predictor import BatchedSearch
from espnet_diverse.demo.controls import condition_controls, search_options
from espnet_diverse.demo.limits import Limits
from espnet_diverse.demo.results import Results

_DOES = {"asr": "Speech recognition", "st": "Speech translation", "mt": "Text translation"}
_NBEST = 5


class ModelService(ABC):
    """A model behind the page.

    Args:
        name: Of the model.
        search: The search that its recognizer or translator uses.
        results: What keeps its results.
        limits: Of one request.
    """

    def __init__(self, name: str, search: BatchedSearch, results: Results, limits: Limits):
        self.name, self.search, self.results, self.limits = name, search, results, limits
        self.options = search.search.options
        self._lock = Lock()

    def about(self) -> dict:
        """What the page must know of the model."""
        beam_size = self.options.beam_size
        return {
            "name": self.name,
            "task": self.search.task,
            "description": self._description(),
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
        """Recognise a recording, or translate a text.

        Args:
            body: A file, or a text as utf-8.
            choices: `beam_size`, `nbest`, and the options of `condition_controls`.

        Returns:
            `id` for `heads`, `text`, `seconds` that it took, `duration` of the audio, `found` languages, `segments`.

        Raises:
            ConfigError: A choice is not possible.
            DataError: The body cannot be read, is too long, or has a language that the model does not know.
        """
        options = search_options(self.options, choices)
        with self._lock:
            began = time.monotonic()
            self.search.search.options = options
            answer = self._run(body, choices)
            return {"duration": 0.0, "found": [], "seconds": time.monotonic() - began, **answer}

    def heads(self, body: bytes, choices: Mapping[str, str]) -> dict:
        """Pictures of heads on a result; see `Results.heads`."""
        with self._lock:
            return self.results.heads(choices)

    def _description(self) -> str:
        conditions = condition_controls(self.search.conditions, self.search.task)
        knows = "; ".join(f"{condition['label'].lower()}: {', '.join(condition['names'])}" for condition in conditions)
        return f"{_DOES[self.search.task]}{f', {knows}' if knows else ''}."

    @abstractmethod
    def _run(self, body: bytes, choices: Mapping[str, str]) -> dict: ...
