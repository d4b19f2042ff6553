"""Metrics of head ablation: teacher-forced loss or accuracy, or a score of decoded text.

A metric returns counts for each utterance. The scores of a data set and its resamples are computed from sums of counts,
so each file is read once.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.analysis.samples import Sample
from espnet_diverse.analysis.token_predictions import encode, predict_tokens
from espnet_diverse.decoding.encoder.encoding import Encoded
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.scoring.build import build_metrics

TEACHER_FORCED = ("loss", "accuracy")
DECODED = ("cer", "wer", "bleu", "chrf")
METRICS = (*TEACHER_FORCED, *DECODED)


class AblationMetric(Protocol):
    """Interface of a metric."""

    def encode(self, batch: Sequence[Sample]) -> Encoded | None:
        """Run the encoder, if the metric can reuse its output."""

    def counts(self, batch: Sequence[Sample], encoded: Encoded | None) -> NDArray:
        """Counts (B, n) of a batch; `encoded` is what `encode` returned, or None to run the encoder again."""

    def score(self, sums: NDArray) -> NDArray:
        """Scores (...) of summed counts (..., n)."""


class TeacherForced:
    """Loss in nats a token, or accuracy of tokens in percent; ends of texts are tokens.

    Args:
        predictor: The model.
        name: One of `TEACHER_FORCED`.
    """

    def __init__(self, predictor: Predictor, name: str):
        self.predictor, self.name = predictor, name

    def encode(self, batch: Sequence[Sample]) -> Encoded:
        """See `AblationMetric`."""
        return encode(self.predictor, batch)

    def counts(self, batch: Sequence[Sample], encoded: Encoded | None) -> NDArray:
        """Number of tokens, and the sum of their losses or the number of correct ones."""
        predictions = predict_tokens(self.predictor, batch, self.encode(batch) if encoded is None else encoded)
        values = (predictions.loss if self.name == "loss" else 100 * predictions.correct).double().numpy()
        lengths = np.array([len(one.tokens) + 1 for one in batch])  # with the end of each text
        return np.stack([lengths, np.add.reduceat(values, np.cumsum(lengths) - lengths)], -1)

    def score(self, sums: NDArray) -> NDArray:
        """See `AblationMetric`."""
        return sums[..., 1] / sums[..., 0]


class Decoded:
    """A score of the texts that the search of `predictor` finds, as `espnet-diverse score` computes it.

    Args:
        predictor: The model, with the options of the search.
        name: One of `DECODED`.
    """

    def __init__(self, predictor: Predictor, name: str):
        self.predictor, self.metric = predictor, build_metrics([name])[name]

    def encode(self, batch: Sequence[Sample]) -> None:
        """The search runs the encoder itself."""

    def counts(self, batch: Sequence[Sample], encoded: Encoded | None) -> NDArray:
        """The metric's counts, in the language of each sample; an utterance without a hypothesis has an empty text."""
        hypotheses = self.predictor.batch([sample.source for sample in batch], [sample.conditions for sample in batch])
        texts = [best[0].text if best else "" for best in hypotheses]
        return self.metric.statistics([one.text for one in batch], texts, [one.language for one in batch])

    def score(self, sums: NDArray) -> NDArray:
        """See `AblationMetric`."""
        return self.metric.score(sums)


def build_metric(predictor: Predictor, name: str) -> AblationMetric:
    """Build a metric of `METRICS`."""
    return TeacherForced(predictor, name) if name in TEACHER_FORCED else Decoded(predictor, name)
