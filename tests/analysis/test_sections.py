import json

import numpy as np
import pytest
import torch
from references.ablations import ablation
from references.figures import assert_readable

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measures.calibration import Calibration
from espnet_diverse.analysis.sections import (
    AblationSection,
    CalibrationSection,
    draw_drop_histogram,
    draw_drops,
    draw_entropy_cdf,
    draw_reliability,
)
from espnet_diverse.analysis.token_predictions import TokenPredictions
from espnet_diverse.functional.calibration import entropy_cdf


def shown(section, folder):
    """The page of a section, without its pictures' data, and the names of the pictures."""
    page = Page("Title")
    section.show(page, folder)
    page.write(folder / "page.html")
    return (folder / "page.html").read_text(), sorted(path.name for path in folder.glob("*.png"))


def test_every_head_has_a_cell(tmp_path):
    scores = {"encoder": np.array([[20.5, 20.0, 19.75]]), "cross": np.array([[28.25, 21.0], [22.0, 23.0]])}
    section = AblationSection(ablation("wer", 7, 20.0, scores))
    text, pictures = shown(section, tmp_path)
    assert "The whole model has wer 20.0 (95 % interval 19.5 to 20.5)" in text and "The score of 7 utterances" in text
    assert "<td>encoder self-attention</td><td>1</td><td>0.5</td><td>0.0</td><td>-0.2</td>" in text
    assert "<td>decoder cross-attention</td><td>1</td><td>8.2*</td><td>1.0*</td><td></td>" in text
    assert "4 of 7 heads are needed, 0 do harm; these utterances do not decide about the others" in text
    assert text.count("<tr>") == 1 + 3 and pictures == ["ablation.heads.png", "ablation.histogram.png"]
    assert section.key == "ablation" and json.loads(json.dumps(section.summary()))["drops"]["cross"][0] == [8.25, 1.0]
    assert set(section.arrays()) == {"encoder_wer_drop", "cross_wer_drop"}


def test_every_data_directory_has_a_row(tmp_path):
    confidence = torch.tensor([0.5, 0.9], dtype=torch.float64)
    found = TokenPredictions(-confidence.log(), confidence, torch.tensor([True, False]), 1 - confidence)
    section = CalibrationSection({"in domain": Calibration(1, found), "out of domain": Calibration(2, found)})
    text, pictures = shown(section, tmp_path)
    assert text.count("<tr>") == 1 + 2 and "<td>out of domain</td><td>2</td><td>2</td><td>0.500</td>" in text
    assert pictures == ["calibration.entropy.png", "calibration.reliability.png"]
    numbers = json.loads(json.dumps(section.summary()))
    assert section.key == "calibration" and numbers["in domain"]["accuracy"] == 0.5
    assert section.arrays()["calibration_in_domain_entropy"].shape == (2,)


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
    sure = {name: (each.predictions.confidence, each.predictions.correct) for name, each in measured.items()}
    draw_reliability(sure, tmp_path / "reliability.png")
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
    entropies = {name: each.predictions.entropy for name, each in measured.items()}
    draw_entropy_cdf(entropies, tmp_path / "entropy.png")
    (axes,) = drawn[-1].axes
    for line, each in zip(axes.get_lines(), entropies.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), entropy_cdf(each, torch.from_numpy(line.get_xdata())))
        assert (np.diff(line.get_ydata()) >= 0).all() and line.get_ydata()[-1] == 1
    assert "entropy" in axes.get_xlabel() and "(nats)" in axes.get_xlabel()
    assert_readable(drawn[-1])


def test_predictions_without_entropy_have_a_plot_too(drawn, tmp_path):
    draw_entropy_cdf({"in domain": torch.zeros(3)}, tmp_path / "entropy.png")
    assert drawn[-1].axes[0].get_lines()[0].get_ydata().tolist() == [1] * 400


@pytest.fixture
def random_ablation():
    random = np.random.default_rng(0)
    shapes = {"encoder": (12, 8), "decoder": (6, 4), "cross": (6, 4)}
    return ablation("wer", 50, 20.0, {kind: 20 + random.exponential(0.4, shape) for kind, shape in shapes.items()})


def test_the_histogram_counts_every_head(drawn, tmp_path, random_ablation):
    draw_drop_histogram(random_ablation, tmp_path / "histogram.png")
    (axes,) = drawn[-1].axes
    assert sum(bar.get_height() for bar in axes.patches) == 12 * 8 + 2 * 6 * 4
    assert axes.get_ylabel() == "number of heads"
    assert axes.get_xlabel() == "performance drop without the head: rise of WER (%)"
    names = ["encoder self-attention", "decoder self-attention", "decoder cross-attention"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names
    assert_readable(drawn[-1])


@pytest.mark.parametrize("kinds", [("encoder", "decoder", "cross"), ("cross",)])
def test_the_drop_of_each_head_is_on_one_scale_around_0(drawn, tmp_path, random_ablation, kinds):
    found = ablation("wer", 50, 20.0, {kind: random_ablation.scores[kind] for kind in kinds})
    draw_drops(found, tmp_path / "drops.png")
    images = [image for axes in drawn[-1].axes for image in axes.images]
    for image, drops in zip(images, found.drops().values(), strict=True):
        np.testing.assert_array_equal(image.get_array(), drops)
    (scale,) = {image.get_clim() for image in images}
    assert -scale[0] == scale[1] == max(each.max() for each in found.drops().values())
    assert_readable(drawn[-1])


def test_a_model_that_loses_nothing(drawn, tmp_path):
    same = ablation("loss", 1, 1.0, {"encoder": np.ones((1, 2))})
    draw_drop_histogram(same, tmp_path / "histogram.png")
    draw_drops(same, tmp_path / "drops.png")
    assert {image.get_clim() for axes in drawn[-1].axes for image in axes.images} == {(-1, 1)}
