"""Bootstrap intervals and the paired bootstrap test, computed from the counts of sentences.

Koehn 2004, "Statistical significance tests for machine translation evaluation": as many sentences as the corpus has are
drawn with replacement, and the resampled corpus is scored. Resamples, intervals and p-values equal sacrebleu's (Post
2018) for the same number of resamples and the same seed, up to its sums of counts in float32.
"""

from collections.abc import Callable, Sequence
from math import nan

import numpy as np

from espnet_diverse.scoring.bootstrap_options import BootstrapOptions

_CELLS = 1 << 24  # maximum size of the table of draws in memory


class Bootstrap(BootstrapOptions):
    """The resampling."""

    def scores(self, statistics: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Scores of the resamples: (sentences, counts) -> (samples,).

        Systems with the same number of sentences get the same draws, so that their scores are paired.

        Args:
            statistics: Counts of each sentence.
            score: Function from summed counts (..., counts) to scores (...).
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
        """Scores of resamples in an order that depends on `position`: (systems, samples).

        Parts of a corpus with the same number of sentences get the same draws. Shuffled by their positions, their
        resamples are independent and can be averaged.

        Args:
            scores: Scores of the resamples of each system, (samples,).
            position: Index of the part.
        """
        return np.stack(scores)[:, np.random.default_rng([self.seed, position]).permutation(self.samples)]


def interval(scores: np.ndarray) -> tuple[float, float]:
    """The 95 % percentile interval of the scores of resamples; sacrebleu prints half its width after ±."""
    ordered = np.sort(scores)
    outside = len(scores) // 40
    return float(ordered[outside]), float(ordered[-1 - outside])


def p_value(system: np.ndarray, baseline: np.ndarray, difference: float) -> float:
    """p-value of the paired bootstrap test, as sacrebleu computes it.

    With d the absolute difference of a resample's two scores and m its mean over the resamples,

        p = (1 + number of resamples with d - m > |difference|) / (1 + number of resamples)

    It is near .43, not 1, for systems that differ but have equal scores. For clear differences it is about the p-value
    of a one-sided test, half of a two-sided one, as d then has the sign of the difference in most resamples.

    Two systems with equal scores in every resample have p = 1, where sacrebleu gives the smallest possible p. With a
    score that is not finite, p is NaN.

    Args:
        system, baseline: Scores of the same resamples, (samples,).
        difference: Difference of the two scores on the whole corpus.
    """
    distances = np.abs(system - baseline)
    if not np.isfinite(distances).all() or not np.isfinite(difference):
        return nan
    if not distances.any():
        return 1.0
    return float(1 + np.sum(distances - distances.mean() > abs(difference))) / (1 + len(distances))
