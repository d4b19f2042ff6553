"""What every metric is: counts of each sentence, and a score of their sum over a corpus.

Because the counts add up, a part of the corpus, or a resample of it, is scored without reading its texts again.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from espnet_diverse.scoring.significance import Bootstrap


class Metric(ABC):
    """A corpus metric.

    Attributes:
        name: What the score is called, for example "WER".
        columns: Headings of what `cells` returns.
        score_column: The one of them under which the score stands.
        unit: What a reference consists of, for messages.
        reference_columns: Which counts add up to the number of reference units.
    """

    name: str
    columns: tuple[str, ...]
    score_column: str
    unit: str
    reference_columns: tuple[int, ...]

    @abstractmethod
    def statistics(self, references: Sequence[str], hypotheses: Sequence[str], languages: Sequence[str]) -> np.ndarray:
        """Counts of each sentence, float64 of shape (sentences, counts).

        Args:
            references: The expected texts.
            hypotheses: The texts to score, in the same order.
            languages: Language of each text, "" where it is not known.
        """

    @abstractmethod
    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of summed counts: (..., counts) -> (...), on the scale on which they are printed."""

    @abstractmethod
    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """What a reader must know to compute score and interval of texts in these languages again."""

    @abstractmethod
    def cells(self, sentences: int, sums: np.ndarray) -> list[str]:
        """The row of a table, a cell for each of `columns`."""

    @abstractmethod
    def details(self, sums: np.ndarray) -> dict[str, float]:
        """The summed counts by name, ready for JSON."""

    def reference_units(self, sums: np.ndarray) -> np.ndarray:
        """Number of reference units: (..., counts) -> (...)."""
        return sums[..., list(self.reference_columns)].sum(-1)
