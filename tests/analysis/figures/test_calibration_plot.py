import numpy as np
import pytest
import torch
from references.figures import assert_readable

from espnet_diverse.analysis.figures.calibration_plot import draw_entropy_cdf, draw_reliability
from espnet_diverse.analysis.measures.calibration import Calibration
from espnet_diverse.analysis.token_predictions import TokenPredictions


@pytest.fixture
def measured():
    """Well calibrated predictions, and sure ones that are wrong half of the time."""
    torch.manual_seed(0)
    confidence = torch.rand(2000, dtype=torch.float64)
    sides = {"in domain": (confidence, torch.rand(2000) < confidence)}
    sides["out of domain"] = (0.5 + confidence / 2, torch.rand(2000) < 0.5)
    return {
        name: Calibration(9, TokenPredictions(-p.log(), p, correct, 2 * (1 - p)))
        for name, (p, correct) in sides.items()
    }


def test_points_of_the_reliability_diagram_are_the_bins(drawn, tmp_path, measured):
    draw_reliability(measured, tmp_path / "reliability.png")
    diagram, shares = drawn[-1].axes
    diagonal, inside, outside = diagram.get_lines()
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert len(inside.get_xdata()) == 15 and outside.get_xdata().min() > 0.5  # empty bins have no point
    np.testing.assert_array_equal(inside.get_ydata(), measured["in domain"].bins().accuracy)
    assert inside.get_label().startswith("in domain: ECE 0.0")
    assert (diagram.get_ylabel(), shares.get_ylabel()) == ("accuracy", "share of tokens")
    assert shares.get_xlabel() == "confidence"
    assert_readable(drawn[-1])


def test_the_distribution_of_entropy_rises_to_one(drawn, tmp_path, measured):
    draw_entropy_cdf(measured, tmp_path / "entropy.png")
    (axes,) = drawn[-1].axes
    for line, each in zip(axes.get_lines(), measured.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), each.cdf(line.get_xdata()))
        assert (np.diff(line.get_ydata()) >= 0).all() and line.get_ydata()[-1] == 1
    assert "entropy" in axes.get_xlabel() and "(nats)" in axes.get_xlabel()
    assert_readable(drawn[-1])


def test_predictions_without_entropy_have_a_plot_too(drawn, tmp_path):
    sure = TokenPredictions(*torch.zeros(2, 3, dtype=torch.float64), torch.ones(3, dtype=torch.bool), torch.zeros(3))
    draw_entropy_cdf({"in domain": Calibration(1, sure)}, tmp_path / "entropy.png")
    assert drawn[-1].axes[0].get_lines()[0].get_ydata().tolist() == [1] * 400
