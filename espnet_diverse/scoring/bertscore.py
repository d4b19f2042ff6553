"""BERTScore: similarity of contextual embeddings, token by token.

Zhang et al. 2020, "BERTScore: evaluating text generation with BERT". Tokens x_i of the reference and y_j of the
hypothesis have embeddings of length 1, and

    R = mean_i max_j x_i . y_j        P = mean_j max_i x_i . y_j        F = 2 P R / (P + R)

Special tokens at the ends of a sentence are ignored, tokens have equal weights, and scores are not rescaled; for an
empty hypothesis all three are 0. The corpus score is 100 times the mean of F over sentences. It depends on the encoder
and its layer, which are in the signature; only scores with equal signatures are comparable.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.significance import Bootstrap


class Embedder(Protocol):
    """An encoder of text.

    Attributes:
        name: Name of the encoder and its layer, for the signature.
    """

    name: str

    def __call__(self, texts: Sequence[str]) -> list[NDArray]:
        """Embeddings of the tokens of each text, (N, D), of length 1."""


class BertScore(Metric):
    """BERTScore.

    Args:
        embedder: Encoder that embeds the texts.
    """

    name = score_column = "BERTScore F1"
    columns = ("Snt", "P", "R", "BERTScore F1")
    unit = "sentence"
    reference_columns = (0,)

    def __init__(self, embedder: Embedder):
        self._embedder = embedder

    def statistics(
        self,
        references: Collection[str],
        hypotheses: Collection[str],
        languages: Sequence[str],
        more: Sequence[Collection[str]] = (),
    ) -> NDArray:
        """1, P, R and F of each sentence."""
        sides = [self._embedder(list(texts)) for texts in (references, hypotheses)]
        return np.array([(1.0, *_similarity(x, y)) for x, y in zip(*sides, strict=True)])

    def score(self, sums: NDArray) -> NDArray:
        """100 times the mean of F."""
        return 100 * sums[..., 3] / sums[..., 0]

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """Encoder, layer and bootstrap."""
        return f"BERTScore|{self._embedder.name}|idf:no|rescaled:no|bs:{bootstrap.samples}|seed:{bootstrap.seed}"

    def cells(self, sentences: int, sums: NDArray) -> list[str]:
        """Number of sentences, P, R and F."""
        return [str(sentences), *(f"{100 * total / sums[0]:.2f}" for total in sums[1:])]

    def details(self, sums: NDArray) -> dict[str, float]:
        """Sums over the sentences."""
        return dict(zip(("sentences", "precision", "recall", "f1"), sums.tolist(), strict=True))


def _similarity(reference: NDArray, hypothesis: NDArray) -> tuple[float, float, float]:
    if not len(reference) or not len(hypothesis):
        return 0.0, 0.0, 0.0
    products = reference @ hypothesis.T
    precision, recall = products.max(0).mean(), products.max(1).mean()
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0
