"""Calibration of a classifier: agreement of its confidence with its accuracy.

An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", appendix C.4 and C.5. The
confidence p of a prediction is the probability of its most likely class. Predictions are grouped by confidence into M
bins B_m of equal width (Guo et al. 2017, "On calibration of modern neural networks"), with n predictions in all:

    acc(B_m) = 1/|B_m| sum_{i in B_m} [prediction i is correct]                                             (10)
    conf(B_m) = 1/|B_m| sum_{i in B_m} p_i                                                                  (11)
    ECE = sum_m |B_m|/n |acc(B_m) - conf(B_m)|                                expected calibration error    (12)
    OE = sum_m |B_m|/n conf(B_m) max(conf(B_m) - acc(B_m), 0)                 overconfidence error          (13)

Bin m is ((m - 1)/M, m/M], and 0 is in the first one. The paper does not state M; Guo et al. use 15.

The cumulative distribution of the entropy of its predictions shows how certain a model is on inputs of another domain:
the lower the curve, the fewer predictions are certain.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class ReliabilityBins(NamedTuple):
    """The bins of a reliability diagram, (M,) each.

    Attributes:
        accuracy: Share of correct predictions, equation (10); 0 in an empty bin.
        confidence: Mean confidence, equation (11); 0 in an empty bin.
        size: Number of predictions, int64.
    """

    accuracy: Tensor
    confidence: Tensor
    size: Tensor


def reliability_bins(confidence: Tensor, correct: Tensor, bins: int = 15) -> ReliabilityBins:
    """Group predictions into bins of equal width by confidence.

    Args:
        confidence: Probability of the most likely class of each prediction, (n,).
        correct: Whether each prediction is correct, (n,), bool or 0 and 1.
        bins: Number of bins M.

    Raises:
        ValueError: There is no bin, no prediction, another number of values in `correct`, or a confidence that is not
            a probability.
    """
    confidence, correct = torch.as_tensor(confidence), torch.as_tensor(correct)
    _check(confidence, correct, bins)
    if confidence.dtype not in (torch.float32, torch.float64):  # in half precision, sums lose predictions
        confidence = confidence.float()
    upper = torch.arange(1, bins, dtype=confidence.dtype, device=confidence.device) / bins
    index = torch.bucketize(confidence.detach(), upper)
    size = torch.bincount(index, minlength=bins)
    empty = confidence.new_zeros(bins)
    sums = (empty.index_add(0, index, values) for values in (correct.to(confidence.dtype), confidence))
    accuracy, mean = (total / size.clamp(min=1) for total in sums)
    return ReliabilityBins(accuracy, mean, size)


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> Tensor:
    """Compute ECE (12), a scalar from 0 to 1, with the same arguments and errors as `reliability_bins`."""
    accuracy, mean, size = reliability_bins(confidence, correct, bins)
    return (size * (accuracy - mean).abs()).sum() / size.sum()


def overconfidence_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> Tensor:
    """Compute OE (13), a scalar from 0 to 1, with the same arguments and errors as `reliability_bins`."""
    accuracy, mean, size = reliability_bins(confidence, correct, bins)
    return (size * mean * (mean - accuracy).clamp(min=0)).sum() / size.sum()


def entropy_cdf(entropy: Tensor, at: Tensor) -> Tensor:
    """Compute the empirical cumulative distribution of entropies.

    Args:
        entropy: Entropy of each predictive distribution, (n,).
        at: Entropies in the same unit, of any shape.

    Returns:
        Share of the predictions whose entropy is at most each value of `at`, in the shape of `at`.

    Raises:
        ValueError: There is no prediction.
    """
    if entropy.numel() == 0:
        raise ValueError("no prediction to measure the entropy of; give at least one")
    ordered = entropy.sort().values
    return torch.searchsorted(ordered, at.to(ordered.dtype), right=True).to(ordered.dtype) / len(ordered)


def _check(confidence: Tensor, correct: Tensor, bins: int) -> None:
    if bins < 1:
        raise ValueError(f"{bins} bins are not possible; give at least 1")
    if confidence.shape != correct.shape or confidence.dim() != 1:
        shapes = f"{tuple(confidence.shape)} and {tuple(correct.shape)}"
        raise ValueError(f"confidence and correct have shapes {shapes}; give one value of each for every prediction")
    if len(confidence) == 0:
        raise ValueError("no prediction to measure the calibration of; give at least one")
    wrong = ~((confidence >= 0) & (confidence <= 1))  # also NaN
    if wrong.any():
        raise ValueError(f"confidence {confidence[wrong][0].item():g} is not a probability; give values from 0 to 1")
