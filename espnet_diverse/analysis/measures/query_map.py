"""A map of the queries of the heads of a layer, and the silhouette score of heads in it.

They are mapped to a plane by t-SNE (van der Maaten and Hinton 2008, "Visualizing data using t-SNE"), and their
separation is measured by the silhouette (Rousseeuw 1987, "Silhouettes: a graphical aid to the interpretation and
validation of cluster analysis"), each head being a cluster.
"""

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

POINTS = 1500
PERPLEXITY = 30.0
SEED = 0


class QuerySample:
    """A random sample of up to `POINTS` queries, drawn evenly from the utterances, at the same positions of every head.

    Args:
        utterances: Number of utterances that will be added.
    """

    def __init__(self, utterances: int):
        self.utterances = utterances
        self._random = np.random.default_rng(SEED)
        self._drawn: list[NDArray] = []

    def add(self, queries: Tensor) -> None:
        """Add the queries of one utterance, (H, T, D)."""
        heads, positions, _ = queries.shape
        wanted = math.ceil(POINTS / heads / self.utterances)
        self._drawn.append(queries.numpy()[:, self._draw(positions, wanted)])

    def queries(self) -> NDArray:
        """Return the sample, (H, n, D)."""
        drawn = np.concatenate(self._drawn, axis=1)
        return drawn[:, self._draw(drawn.shape[1], max(2, POINTS // len(drawn)))]

    def _draw(self, available: int, wanted: int) -> NDArray:
        return np.sort(self._random.choice(available, min(available, wanted), replace=False))


def embed(queries: NDArray) -> NDArray:
    """Map queries (H, n, D) to points (H, n, 2); the same queries always give the same points."""
    from sklearn.manifold import TSNE

    heads, count, width = queries.shape
    if heads * count == 1:  # t-SNE needs two
        return np.zeros((heads, count, 2))
    # Perplexity is about the number of neighbours of a point, and must be well below the number of points.
    perplexity = min(PERPLEXITY, (heads * count - 1) / 3)
    points = TSNE(perplexity=perplexity, random_state=SEED, n_jobs=1).fit_transform(queries.reshape(-1, width))
    return points.reshape(heads, count, 2)


def separation(queries: NDArray) -> float:
    """Compute the mean silhouette of queries (H, n, D): 1 if the queries of a head are close to each other and far from
    other heads' queries, 0 if heads overlap, below 0 if queries are closer to another head's queries.

    It is not a number if there is only one head, or only one query of each. Distances are Euclidean.
    """
    from sklearn.metrics import silhouette_score

    heads, count, width = queries.shape
    if heads == 1 or count == 1:
        return math.nan
    return float(silhouette_score(queries.reshape(-1, width), np.repeat(np.arange(heads), count)))
