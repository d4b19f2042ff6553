import numpy as np
import torch
from references.figures import assert_readable

from espnet_diverse.analysis.figures import overview
from espnet_diverse.analysis.measures.redundancy import Redundancy


def measured(utterances):
    torch.manual_seed(0)
    found = Redundancy()
    for _ in range(utterances):
        weights = torch.randn(3, 4, 5, 6).softmax(-1)
        found.add(weights, torch.randn(3, 4, 5, 2))
    return found


def test_layers_have_lines_and_bands_of_their_intervals(drawn, tmp_path):
    several, one = measured(5), measured(1)
    overview.draw_layers({"encoder": several, "cross": one}, tmp_path / "layers.png")
    axes = drawn[-1].axes[0]
    lines = [line.get_ydata() for line in axes.get_lines()]
    np.testing.assert_allclose(lines, [several.lr_by_layer() / 2, one.lr_by_layer() / 2])
    wide, none = (np.ptp(band.get_paths()[0].vertices[:, 1]) for band in axes.collections)
    assert wide > none == np.ptp(lines[1])
    assert_readable(drawn[-1])


def test_all_heads_are_shown(drawn, tmp_path):
    weights = torch.rand(6, 4, 7, 9)
    overview.draw_all_heads("encoder self-attention", weights, tmp_path / "heads.png")
    shown = [axes.images[0].get_array() for axes in drawn[-1].axes]
    np.testing.assert_array_equal(np.stack(shown).reshape(6, 4, 7, 9), weights)
    assert_readable(drawn[-1])
