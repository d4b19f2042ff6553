"""Bootstrap intervals and the paired bootstrap test, from the counts of sentences.

Sentences are drawn with replacement, as many as there are, and the corpus is scored anew: Koehn 2004, "Statistical
significance tests for machine translation evaluation". Draws, interval and p-value are those of sacrebleu (Post 2018)
with the same number of resamples and the same seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from espnet_diverse.errors import ConfigError

_CELLS = 1 << 24  # of the table of draws that is held at a time


@dataclass(frozen=True)
class Bootstrap:
    """How resamples are drawn.

    Attributes:
        samples: Number of resamples.
        seed: Seed of NumPy's default generator; the defaults of both are sacrebleu's.

    Raises:
        ConfigError: There are fewer than 100 resamples, or the seed is negative.
    """

    samples: int = 1000
    seed: int = 12345

    def __post_init__(self):
        if self.samples < 100:
            raise ConfigError(f"{self.samples} resamples are too few for a 95 % interval; the least is 100")
        if self.seed < 0:
            raise ConfigError(f"seed {self.seed} is negative; give 0 or more")

    def scores(self, statistics: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Scores of the resamples: (sentences, counts) -> (samples,).

        Two systems with equally many sentences meet the same draws, so that their scores are pairs.

        Args:
            statistics: Counts of each sentence.
            score: Summed counts (..., counts) to scores (...).
        """
        sentences = len(statistics)
        random = np.random.default_rng(self.seed)
        block = max(1, _CELLS // sentences)
        parts = []
        for start in range(0, self.samples, block):
            rows = min(block, self.samples - start)
            drawn = random.choice(sentences, size=(rows, sentences), replace=True)
            # How often each sentence was drawn; its product with the counts sums the resample.
            offsets = sentences * np.arange(rows)[:, None]
            times = np.bincount((drawn + offsets).ravel(), minlength=rows * sentences).reshape(rows, sentences)
            parts.append(score(times.astype(np.float64) @ statistics))
        return np.concatenate(parts)

    def shuffled(self, scores: Sequence[np.ndarray], position: int) -> np.ndarray:
        """Resamples' scores of systems, each in the same order that depends on `position`: (systems, samples).

        Parts of a corpus that are equally long meet the same draws. Shuffled, each by its own position, their
        resamples are independent and can be averaged.
        """
        return np.stack(scores)[:, np.random.default_rng([self.seed, position]).permutation(self.samples)]


def interval(scores: np.ndarray) -> tuple[float, float]:
    """The 95 % percentile interval of resamples' scores; half its width is what sacrebleu prints after ±."""
    ordered = np.sort(scores)
    outside = len(scores) // 40
    return float(ordered[outside]), float(ordered[-1 - outside])


def p_value(system: np.ndarray, baseline: np.ndarray, difference: float) -> float:
    """p-value of the two-sided paired bootstrap test.

    With d the absolute difference of a resample's two scores and m its mean over the resamples,

        p = (1 + number of resamples with d - m > |difference|) / (1 + number of resamples)

    Two systems that score equally in every resample have p = 1, where sacrebleu gives the least p there is.

    Args:
        system, baseline: Scores of the same resamples.
        difference: Of the two scores on the whole corpus.
    """
    distances = np.abs(system - baseline)
    if not distances.any():
        return 1.0
    return float(1 + np.sum(distances - distances.mean() > abs(difference))) / (1 + len(distances))
