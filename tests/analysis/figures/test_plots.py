import matplotlib.image
import numpy as np
import pytest
import torch
from references.figures import assert_readable

from espnet_diverse.analysis.figures import plots
from espnet_diverse.analysis.measures.clusters import ClusterUse
from espnet_diverse.analysis.measures.redundancy import Redundancy


def scales(figure):
    """Colour scales of the heat maps of a figure."""
    return {image.get_clim() for axes in figure.axes for image in axes.images}


def test_pairs_of_few_heads_are_readable(drawn, tmp_path):
    plots.draw_pairs("decoder cross-attention", np.eye(2), (1, 2), tmp_path / "pairs.png")
    assert_readable(drawn[-1])


def test_pairs(drawn, tmp_path):
    matrix = np.full((24, 24), 0.5)
    plots.draw_pairs("encoder", matrix, (6, 4), tmp_path / "pairs.png")
    axes = drawn[-1].axes[0]
    assert axes.get_xlabel() == axes.get_ylabel() == "layer.head" and scales(drawn[-1]) == {(0, 1)}
    assert [label.get_text() for label in axes.get_yticklabels()][3:6] == ["1.4", "2.1", "2.2"]
    assert_readable(drawn[-1])
    assert matplotlib.image.imread(tmp_path / "pairs.png")[..., :3].std() > 0.05


def test_clusters_of_different_number_have_one_scale(drawn, tmp_path):
    uses = {"frames": ClusterUse(), "queries": ClusterUse()}
    uses["frames"].add(torch.full((6, 4, 5, 8), 1 / 8))
    uses["queries"].add(torch.full((6, 4, 5, 2), 1 / 2))
    plots.draw_clusters("encoder", uses, tmp_path / "clusters.png")
    assert scales(drawn[-1]) == {(0, 0.5)}
    right = [axes for axes in drawn[-1].axes if axes.get_ylabel() == "clusters used | clusters a position"]
    assert [axes.get_yticklabels()[0].get_text() for axes in right] == ["8.00 | 8.00", "2.00 | 2.00"]
    assert_readable(drawn[-1])


def test_posteriors_have_tokens_where_there_are_tokens(drawn, tmp_path):
    posteriors = {"tokens": np.full((2, 40, 4), 0.25), "frames": np.full((2, 300, 4), 0.25)}
    labels = ["zhuang4", "yi1"] * 20
    plots.draw_posteriors("cross", posteriors, {"tokens": labels}, tmp_path / "posteriors.png")
    tokens, frames = drawn[-1].axes[2:4]
    assert [label.get_text() for label in tokens.get_xticklabels()] == labels
    assert (tokens.get_xlabel(), frames.get_xlabel()) == ("token predicted", "encoder frame")
    assert scales(drawn[-1]) == {(0, 1)}
    assert_readable(drawn[-1])


@pytest.mark.parametrize("heads", [2, 12])
def test_queries_have_a_colour_for_each_head(drawn, tmp_path, heads):
    points = np.random.default_rng(0).standard_normal((heads, 5, 2))
    plots.draw_queries({"encoder": points, "cross": points[:1]}, tmp_path / "queries.png")
    legend = drawn[-1].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [f"head {h + 1}" for h in range(heads)]
    colours = {tuple(mark.get_facecolor()[0]) for mark in legend.legend_handles}
    assert len(colours) == heads


def measured(utterances):
    torch.manual_seed(0)
    found = Redundancy()
    for _ in range(utterances):
        weights = torch.randn(3, 4, 5, 6).softmax(-1)
        found.add(weights, torch.randn(3, 4, 5, 2))
    return found


def test_layers_have_lines_and_bands_of_their_intervals(drawn, tmp_path):
    several, one = measured(5), measured(1)
    plots.draw_layers({"encoder": several, "cross": one}, tmp_path / "layers.png")
    axes = drawn[-1].axes[0]
    lines = [line.get_ydata() for line in axes.get_lines()]
    np.testing.assert_allclose(lines, [several.lr_by_layer() / 2, one.lr_by_layer() / 2])
    wide, none = (np.ptp(band.get_paths()[0].vertices[:, 1]) for band in axes.collections)
    assert wide > none == np.ptp(lines[1])
    assert_readable(drawn[-1])


def test_all_heads_are_shown(drawn, tmp_path):
    weights = torch.rand(6, 4, 7, 9)
    plots.draw_all_heads("encoder self-attention", weights, tmp_path / "heads.png")
    shown = [axes.images[0].get_array() for axes in drawn[-1].axes]
    np.testing.assert_array_equal(np.stack(shown).reshape(6, 4, 7, 9), weights)
    assert_readable(drawn[-1])
