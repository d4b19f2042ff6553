import numpy as np
import pytest
from references.figures import assert_readable

from espnet_diverse.analysis.figures.ablation_plot import draw_drop_histogram, draw_drops
from espnet_diverse.analysis.measures.head_ablation import HeadAblation


@pytest.fixture
def ablation():
    random = np.random.default_rng(0)
    shapes = {"encoder": (12, 8), "decoder": (6, 4), "cross": (6, 4)}
    return HeadAblation("wer", 50, 20.0, {kind: 20 + random.exponential(0.4, shape) for kind, shape in shapes.items()})


def test_the_histogram_counts_every_head(drawn, tmp_path, ablation):
    draw_drop_histogram(ablation, tmp_path / "histogram.png")
    (axes,) = drawn[-1].axes
    assert sum(bar.get_height() for bar in axes.patches) == 12 * 8 + 2 * 6 * 4
    assert axes.get_ylabel() == "number of heads"
    assert axes.get_xlabel() == "performance drop without the head: rise of WER (%)"
    names = ["encoder self-attention", "decoder self-attention", "decoder cross-attention"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names
    assert_readable(drawn[-1])


@pytest.mark.parametrize("kinds", [("encoder", "decoder", "cross"), ("cross",)])
def test_the_drop_of_each_head_is_on_one_scale_around_0(drawn, tmp_path, ablation, kinds):
    ablation = HeadAblation("wer", 50, 20.0, {kind: ablation.scores[kind] for kind in kinds})
    draw_drops(ablation, tmp_path / "drops.png")
    images = [image for axes in drawn[-1].axes for image in axes.images]
    for image, drops in zip(images, ablation.drops().values(), strict=True):
        np.testing.assert_array_equal(image.get_array(), drops)
    (scale,) = {image.get_clim() for image in images}
    assert -scale[0] == scale[1] == max(each.max() for each in ablation.drops().values())
    assert_readable(drawn[-1])


def test_a_model_that_loses_nothing(drawn, tmp_path):
    same = HeadAblation("loss", 1, 1.0, {"encoder": np.ones((1, 2))})
    draw_drop_histogram(same, tmp_path / "histogram.png")
    draw_drops(same, tmp_path / "drops.png")
    assert {image.get_clim() for axes in drawn[-1].axes for image in axes.images} == {(-1, 1)}
