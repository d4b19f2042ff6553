"""The plot of a comparison."""

import matplotlib.image

from espnet_diverse.analysis.comparison import System
from espnet_diverse.analysis.figures.comparison_plot import _means, draw_comparison


def test_the_line_of_a_strategy_begins_at_the_plain_model(tmp_path):
    sizes = [
        ("none", 4, 4, 20.0),
        ("none", 8, 8, 21.0),
        ("group", 4, 8, 18.0),
        ("group", 4, 8, 16.0),
        ("group", 4, 16, 15),
    ]
    systems = [System("s", strategy, heads, pool, 1, None, {"all": score}) for strategy, heads, pool, score in sizes]
    group = [system for system in systems if system.strategy == "group"]
    assert _means(group, systems) == ([4, 8, 16], [20.0, 17.0, 15.0])
    assert _means(systems[:1], systems) == ([4], [20.0])
    draw_comparison(systems, "WER", tmp_path / "all.png")
    draw_comparison(systems[:1], "WER", tmp_path / "one.png")
    shown = [matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("all", "one")]
    assert shown[0].shape == shown[1].shape and (shown[0] != shown[1]).any()
