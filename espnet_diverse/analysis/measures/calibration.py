"""Calibration of a model on the tokens of a data directory, measured with teacher forcing (`functional.calibration`).

An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", appendix C.4 and C.5. The
paper measures sentence classifiers; here a prediction is of one token, given the reference tokens before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.analysis.samples import Sample, batches
from espnet_diverse.analysis.token_predictions import TokenPredictions, encode, joined, predict_tokens
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.functional.calibration import (
    ReliabilityBins,
    expected_calibration_error,
    overconfidence_error,
    reliability_bins,
)
from espnet_diverse.progress import progress

BINS = 15
HEADER = ("data", "utterances", "tokens", "accuracy", "mean confidence", "ECE", "OE", "mean entropy (nats)")


@dataclass(frozen=True)
class Calibration:
    """Predictions of the tokens of one data directory.

    Attributes:
        utterances: Number of utterances.
        predictions: Predictions of all tokens, in double precision.
    """

    utterances: int
    predictions: TokenPredictions

    def bins(self) -> ReliabilityBins:
        """Return the bins of the reliability diagram."""
        return reliability_bins(self.predictions.confidence, self.predictions.correct, BINS)

    def summary(self) -> dict[str, float]:
        """Return the numbers of the table, for JSON."""
        predictions = self.predictions
        return {
            "utterances": self.utterances,
            "tokens": len(predictions.loss),
            "accuracy": predictions.correct.double().mean().item(),
            "confidence": predictions.confidence.mean().item(),
            "ece": expected_calibration_error(predictions.confidence, predictions.correct, BINS).item(),
            "oe": overconfidence_error(predictions.confidence, predictions.correct, BINS).item(),
            "entropy": predictions.entropy.mean().item(),
        }


def calibrate(predictor: Predictor, samples: Sequence[Sample]) -> Calibration:
    """Measure the calibration of a model on utterances."""
    parts = [
        predict_tokens(predictor, batch, encode(predictor, batch))
        for batch in progress(list(batches(predictor, samples)), "calibration", unit="batch")
    ]
    predictions = joined(parts)
    double = (values.double() if values.is_floating_point() else values for values in predictions)
    return Calibration(len(samples), TokenPredictions(*double))


def rows(measured: Mapping[str, Calibration]) -> list[tuple[str, ...]]:
    """Return the cells of the table under `HEADER`: a row for each data directory."""
    table = []
    for name, calibration in measured.items():
        numbers = calibration.summary()
        shown = [f"{numbers[key]:.3f}" for key in ("accuracy", "confidence", "ece", "oe", "entropy")]
        table.append((name, str(calibration.utterances), str(len(calibration.predictions.loss)), *shown))
    return table


def arrays(measured: Mapping[str, Calibration]) -> dict[str, NDArray]:
    """Return the bins of each data directory, and confidence, correctness and entropy of its tokens, for npz."""
    entries = {}
    for name, calibration in measured.items():
        prefix = f"calibration_{name.replace(' ', '_')}"
        entries |= {f"{prefix}_bin_{part}": values.numpy() for part, values in calibration.bins()._asdict().items()}
        parts = ("confidence", "correct", "entropy")
        entries |= {f"{prefix}_{part}": np.asarray(getattr(calibration.predictions, part)) for part in parts}
    return entries
