"""Calibration against loops over the bins, and against golden arrays."""

import numpy as np
import pytest
import torch
from references.golden import golden

from espnet_diverse.functional.calibration import (
    entropy_cdf,
    expected_calibration_error,
    overconfidence_error,
    reliability_bins,
)


def loop(confidence, correct, bins):
    """ECE and OE, a bin at a time."""
    ece = oe = 0.0
    for m in range(bins):
        inside = [i for i, p in enumerate(confidence) if m / bins < p <= (m + 1) / bins or (m == 0 and p == 0)]
        if inside:
            acc = sum(bool(correct[i]) for i in inside) / len(inside)
            conf = sum(float(confidence[i]) for i in inside) / len(inside)
            ece += len(inside) / len(confidence) * abs(acc - conf)
            oe += len(inside) / len(confidence) * conf * max(conf - acc, 0.0)
    return ece, oe


@pytest.mark.parametrize("bins", [1, 2, 15, 40])
def test_equal_loops(draw, bins):
    confidence = draw.posterior(100, 4).max(-1).values.detach()
    correct = draw.normal(100) > 0
    ece, oe = loop(confidence, correct, bins)
    assert expected_calibration_error(confidence, correct, bins).item() == pytest.approx(ece, abs=1e-12)
    assert overconfidence_error(confidence, correct, bins).item() == pytest.approx(oe, abs=1e-12)


def test_golden_arrays():
    arrays = golden("metrics")
    confidence, predicted = arrays["probs"].max(-1)
    correct, bins = predicted == arrays["labels"], int(arrays["n_bins"])
    found = reliability_bins(confidence, correct, bins)
    for values, name in zip(found, ("bin_acc", "bin_conf", "bin_count"), strict=True):
        torch.testing.assert_close(values, arrays[name], rtol=0, atol=1e-10)
    ece, oe = (measure(confidence, correct, bins) for measure in (expected_calibration_error, overconfidence_error))
    torch.testing.assert_close(ece, arrays["ece"], rtol=0, atol=1e-10)
    torch.testing.assert_close(oe, arrays["oe"], rtol=0, atol=1e-10)
    shares = entropy_cdf(arrays["entropy"], torch.tensor([0.5, 1.0]))
    torch.testing.assert_close(shares, arrays["entropy_cdf_at_0_5_1_0"], rtol=0, atol=1e-10)


def test_a_bin_has_its_upper_edge_and_not_its_lower_one():
    confidence = torch.tensor([0.0, 0.5, 0.5000001, 1.0])
    size = reliability_bins(confidence, torch.ones(4), bins=2).size
    assert size.tolist() == [2, 2]
    for kind in (torch.float32, torch.float64):
        edges = torch.arange(1, 16, dtype=kind) / 15
        assert reliability_bins(edges, torch.ones(15)).size.tolist() == [1] * 15


def test_sure_and_wrong_is_the_worst():
    sure, right = torch.ones(3), torch.tensor([True, True, True])
    assert expected_calibration_error(sure, right) == overconfidence_error(sure, right) == 0
    assert expected_calibration_error(sure, ~right) == overconfidence_error(sure, ~right) == 1
    unsure = torch.full((3,), 0.25)  # right more often than it says: no overconfidence
    assert overconfidence_error(unsure, right) == 0 and expected_calibration_error(unsure, right) == 0.75


def test_arrays_and_numbers_of_correctness_are_taken_too():
    confidence, correct = np.array([0.9, 0.6]), np.array([1, 0])
    assert expected_calibration_error(confidence, correct).item() == pytest.approx((0.1 + 0.6) / 2)


def test_half_precision_counts_every_prediction():
    confidence = torch.full((5000,), 0.75, dtype=torch.bfloat16)
    assert expected_calibration_error(confidence, torch.ones(5000)).item() == pytest.approx(0.25)


def test_gradients(draw):
    confidence = draw.posterior(12, 3).max(-1).values.detach().requires_grad_()
    correct = draw.normal(12) > 0
    assert torch.autograd.gradcheck(lambda p: expected_calibration_error(p, correct, 5), (confidence,))
    assert torch.autograd.gradcheck(lambda p: overconfidence_error(p, correct, 5), (confidence,))


def test_the_distribution_of_entropies():
    entropy = torch.tensor([2.0, 0.0, 1.0, 1.0])
    at = torch.tensor([[-1.0, 0.0], [1.0, 5.0]])
    torch.testing.assert_close(entropy_cdf(entropy, at), torch.tensor([[0.0, 0.25], [0.75, 1.0]]))


def test_invalid_inputs_are_refused():
    one = torch.ones(1)
    for measure in (expected_calibration_error, overconfidence_error):
        with pytest.raises(ValueError, match="no prediction to measure the calibration of; give at least one"):
            measure(torch.ones(0), torch.ones(0))
        with pytest.raises(ValueError, match="0 bins are not possible; give at least 1"):
            measure(one, one, bins=0)
        with pytest.raises(ValueError, match=r"shapes \(1,\) and \(2,\); give one value of each for every prediction"):
            measure(one, torch.ones(2))
        for value, shown in ((1.5, "1.5"), (-0.1, "-0.1"), (torch.nan, "nan")):
            with pytest.raises(ValueError, match=f"confidence {shown} is not a probability; give values from 0 to 1"):
                measure(torch.tensor([0.5, value]), torch.ones(2))
    with pytest.raises(ValueError, match="no prediction to measure the entropy of; give at least one"):
        entropy_cdf(torch.ones(0), one)
