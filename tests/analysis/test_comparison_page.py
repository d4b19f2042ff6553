"""The sentences of the page of `compare`; tests/bin/report/test_compare.py has a whole page."""

import numpy as np
import pytest
from references.figures import assert_readable

from espnet_diverse.analysis.comparison import System
from espnet_diverse.analysis.comparison_page import _means, draw_comparison, draw_differences, verdict, write_page
from espnet_diverse.analysis.differences import Difference, Differences


@pytest.mark.parametrize(
    ("sizes", "interval", "said"),
    [
        ([1.0, 2.0], (0.5, 2.5), "+1.5 wer against old (95 % interval +0.5 to +2.5, p = 0.040), which is certain."),
        ([-4.0, 1.0], (-4.0, 1.0), "-4.0 to +1.0, p = 0.040), which is not certain: the interval holds 0."),
        ([3.0], (3.0, 3.0), "new has +3.0 wer against old; one utterance has no interval and says nothing of others."),
    ],
)
def test_the_verdict_is_certain_only_where_the_interval_lies_on_one_side_of_0(sizes, interval, said):
    found = Difference("new", float(np.mean(sizes)), interval, 0.04, np.array(sizes))
    assert said in verdict(found, "old", "wer")


def test_systems_that_write_the_same_have_no_table_of_utterances(tmp_path):
    same = Difference("new", 0.0, (0.0, 0.0), 0.5, np.zeros(2))
    found = Differences({"u1": "a", "u2": "b"}, {"old": ["a", "b"], "new": ["a", "b"]}, [same])
    systems = [System(name, "none", 2, 2, 9, None, {"all": 0.0}) for name in ("old", "new")]
    (tmp_path / "x.png").touch()
    write_page(systems, "wer", found, dict.fromkeys(("scores", "differences"), tmp_path / "x.png"), tmp_path / "page")
    page = (tmp_path / "page").read_text()
    assert "No utterance has a different wer with new than with old." in page
    assert "Utterances that differ most" not in page


SIZES = [("none", 4, 4, 20.0), ("none", 8, 8, 21.0), ("group", 4, 8, 18.0), ("group", 4, 8, 16.0), ("group", 4, 16, 15)]


def systems(sizes=SIZES, **more):
    return [
        System(f"s{number}", strategy, heads, pool, 10**6, None, {"all": score}, **more)
        for number, (strategy, heads, pool, score) in enumerate(sizes)
    ]


def test_the_line_of_a_strategy_begins_at_the_plain_model():
    found = systems()
    group = [system for system in found if system.strategy == "group"]
    assert _means(group, found) == ([4, 8, 16], [20.0, 17.0, 15.0])
    assert _means(found[:1], found) == ([4], [20.0])


def test_the_pool_panel_is_drawn_only_with_head_selection(drawn, tmp_path):
    draw_comparison(systems(SIZES[:2]), "WER", tmp_path / "plain.png")
    draw_comparison(systems(), "WER", tmp_path / "pools.png")
    assert [len(figure.axes) for figure in drawn] == [1, 2]
    assert [axes.get_xlabel() for axes in drawn[1].axes] == ["WER", "heads in the pool (P)"]
    assert_readable(drawn[1])


def test_the_forest_has_scores_and_their_intervals(drawn, tmp_path):
    draw_comparison(systems(SIZES[:2], intervals={"all": (19.0, 23.0)}), "WER", tmp_path / "plain.png")
    (axes,) = drawn[-1].axes
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[19, 23], [20], [19, 23], [21]]
    assert len({float(line.get_ydata()[0]) for line in axes.get_lines()}) == 2


def test_differences_have_their_interval_and_are_sorted(drawn, tmp_path):
    found = Difference("new", -1.0, (-3.0, 0.5), 0.2, np.array([2.0, np.nan, -5.0, 0.0]))
    draw_differences(Differences({}, {"old": [], "new": []}, [found]), "WER", tmp_path / "differences.png")
    above, below = drawn[-1].axes
    assert list(above.get_lines()[0].get_xdata()) == [-3.0, 0.5] and list(above.get_lines()[1].get_xdata()) == [-1.0]
    assert list(below.get_lines()[0].get_ydata()) == [-5.0, 0.0, 2.0]
    assert above.get_xlabel() == "WER, difference from old"
    assert_readable(drawn[-1])
