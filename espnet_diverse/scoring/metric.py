"""Interface of a metric: counts for each sentence, and a score of their sum over a corpus.

Because the counts are summed, a part or a resample of the corpus is scored without processing its texts again.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from espnet_diverse.conditions import base_language
from espnet_diverse.data.scripts import UNSPACED
from espnet_diverse.scoring.significance import Bootstrap

_WORDS = {"accuracy", "loss", "perplexity", "word_perplexity"}
_LOWER = {"cer", "wer", "mer", "ter", "word_perplexity", "perplexity", "loss"}


def lower_is_better(metric: str) -> bool:
    """Return whether a lower value of a metric is better, by the name of the metric on the command line."""
    return metric in _LOWER


def shown_name(metric: str) -> str:
    """The name of a metric in texts and figures: accuracy, word perplexity; else an abbreviation such as CER."""
    return metric.replace("_", " ") if metric in _WORDS else metric.upper()


def better_side(metric: str) -> str:
    """An arrow to the side of the better values of a metric, for the label of an axis."""
    return "← better" if lower_is_better(metric) else "better →"


def unspaced_notes(name: str, languages: Iterable[str]) -> list[str]:
    """A note on the languages without spaces, if any, in which the metric `name` takes a whole phrase for a word."""
    unspaced = sorted({base_language(language) for language in languages} & UNSPACED.keys())
    reason = "written without spaces between words, so that a phrase counts as one word: score cer, mer or chrf there"
    return [f"{name} makes no sense in {', '.join(unspaced)}, nor in averages with them: {reason}"] if unspaced else []


class Metric(ABC):
    """A corpus metric.

    Attributes:
        name: Name of the score, for example "WER".
        columns: Column headings for `cells`.
        score_column: Heading of the column with the score.
        unit: Name of a reference unit, such as "word", for messages.
        reference_columns: Indices of the counts whose sum is the number of reference units.
    """

    name: str
    columns: tuple[str, ...]
    score_column: str
    unit: str
    reference_columns: tuple[int, ...]

    @abstractmethod
    def statistics(
        self,
        references: Collection[str],
        hypotheses: Collection[str],
        languages: Sequence[str],
        more: Sequence[Collection[str]] = (),
    ) -> np.ndarray:
        """Counts of each sentence, float64 of shape (sentences, counts).

        Args:
            references: Reference texts.
            hypotheses: Texts to score, in the same order.
            languages: Language of each text, or "" if it is unknown.
            more: Further references of each text, for metrics that take several.
        """

    def notes(self, references: Collection[str], hypotheses: Collection[str], languages: Sequence[str]) -> list[str]:
        """Notes on texts that the metric does not suit; takes the arguments of `statistics`."""
        return []

    @abstractmethod
    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of summed counts: (..., counts) -> (...)."""

    @abstractmethod
    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """All settings that are needed to reproduce score and interval for texts in these languages."""

    @abstractmethod
    def cells(self, sentences: int, sums: np.ndarray) -> list[str]:
        """Cells of a table row, one for each of `columns`."""

    @abstractmethod
    def details(self, sums: np.ndarray) -> dict[str, float]:
        """The summed counts by name, for JSON."""

    def reference_units(self, sums: np.ndarray) -> np.ndarray:
        """Number of reference units: (..., counts) -> (...)."""
        return sums[..., list(self.reference_columns)].sum(-1)
