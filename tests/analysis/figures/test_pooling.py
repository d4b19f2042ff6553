"""Heat maps of pooling: every head and token has a cell, and all labels can be read."""

import numpy as np
from references.figures import assert_readable

from espnet_diverse.analysis.figures.pooling import PooledText, draw_pooling


def test_every_head_and_token_has_a_cell(drawn, tmp_path):
    random = np.random.default_rng(0)
    texts = [
        PooledText(f"u{length}: a (0.90)", ["▁a", "<space>", "b"] * length, random.dirichlet(np.ones(3 * length), 5))
        for length in (2, 8, 40)
    ]
    draw_pooling(texts, tmp_path / "pooling.png")
    *panels, bar = drawn[-1].axes
    assert bar.get_ylabel() == "weight of the token (rows sum to 1)"
    for axes, text in zip(panels, texts, strict=True):
        cells = axes.images[0].get_array()
        assert cells.shape == (6, min(80, len(text.tokens))) and axes.get_title(loc="left") == text.title
        np.testing.assert_array_equal(cells[:5], text.weights[:, :80])
        np.testing.assert_allclose(cells[5], text.weights[:, :80].mean(0))
        assert [label.get_text() for label in axes.get_xticklabels()][:3] == ["▁a", "␣", "b"]
        assert axes.get_ylabel() == "head of the pooling"
    assert {axes.images[0].get_clim() for axes in panels} == {(0.0, max(text.weights.max() for text in texts))}
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert_readable(drawn[-1])
