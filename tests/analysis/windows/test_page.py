"""The report of windows: its sentences, tables, pictures and numbers."""

import html
import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from references.figures import assert_readable

from espnet_diverse.analysis.windows import pictures
from espnet_diverse.analysis.windows.choice import Windows
from espnet_diverse.analysis.windows.lengths import AFTER, BEFORE, Cost
from espnet_diverse.analysis.windows.narrowing import State
from espnet_diverse.analysis.windows.page import saved, write_windows
from espnet_diverse.runs.operations import Counts

BEFORE_LOSS = np.array([10.0, 12.0, 8.0])


def state(levels, factor, share=None):
    return State(np.array(levels), BEFORE_LOSS * factor, share)


@pytest.fixture
def chosen():
    """Windows of two layers of three heads, of widths up to 256."""
    widths = tuple(2**power for power in range(9))
    reach = np.linspace(0.1, 1, 9) * np.ones((2, 3, 1))
    proposals = [state([[0] * 3] * 2, 1.5, 0.8), state([[1, 8, 8], [8, 8, 4]], 1.002, 0.9)]
    path = [*proposals[-1:], state([[0, 8, 8], [8, 8, 4]], 1.003), state([[0, 8, 8], [8, 7, 4]], 1.005)]
    names, skipped = ["a", "b", "c"], {"d": "no audio"}
    return Windows(widths, reach, [200, 210, 190], BEFORE_LOSS, proposals, path, 1.0, names, skipped, 42)


@pytest.fixture
def costs():
    counts = {BEFORE: Counts(2e9, 0, 0, 0, 4e6), AFTER: Counts(1e9, 0, 0, 0, 3e6)}
    whole = Cost(10, 250, {BEFORE: [2.0, 2.0], AFTER: [1.0, 1.0]}, counts)
    part = Cost(600, 15000, {AFTER: [9.0]}, {AFTER: counts[AFTER]}, {BEFORE: "a pass would need about 20 GB"})
    return [whole, part, Cost(3600, left_out={"": "3600 s are more than it reads"})]


def test_the_page_says_what_was_chosen_what_it_costs_and_what_it_saves(tmp_path, chosen, costs):
    write_windows(chosen, costs, "Windows of <b>model</b>", tmp_path, 0.04)
    source = (tmp_path / "windows.html").read_text(encoding="utf-8")
    page = html.unescape(source)
    assert "Windows of &lt;b&gt;model&lt;/b&gt;" in source and "<b>model" not in source
    for heading in ("At a glance", "Windows", "Loss", "Time and memory"):
        assert f">{heading}</h2>" in page
    assert page.count("<img ") == 4 and page.count("data:image/png;base64") == 4
    for text in (
        "Each of the 3 heads of the 2 encoder layers got a window",
        "The loss changes by +0.5 % (95 % interval 0.5 to 0.5), within the tolerance of 1 %",
        "This is on 3 utterances; 1 could not be read and are listed in windows.json",
        "A position is 40 ms. 256 is the widest",
        "At 10 s the encoder takes 0.50 of the time and 0.75 of the memory.",
        "At 10 min the encoder with all positions was not measured: a pass would need about 20 GB.",
        "At 60 min the encoder was not measured: 3600 s are more than it reads.",
        "42 passes over the utterances: windows were proposed that keep a share of each head's weight (80 %, 90 %)",
        "from there 2 windows were halved",
        "<td>1</td><td>1</td><td>256</td><td>256</td>",
        "<td>2</td><td>256</td><td>128</td><td>16</td>",
        "<td>mean</td><td>10.000</td><td>10.050</td><td>0.500 (0.500 to 0.500)</td><td>1</td>",
        "<td>10 s</td><td>250</td><td>2</td><td>2</td><td>1</td><td>0.5</td><td>4</td><td>3</td><td>0.75</td>",
        "<td>10 min</td><td>15000</td><td>1</td><td>–</td><td>9</td><td>–</td>",
        "<td>60 min</td><td>–</td><td>–</td>",
    ):
        assert text in page, text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["windows.html", "windows.json"]


def test_the_numbers_are_those_of_the_page(tmp_path, chosen, costs):
    write_windows(chosen, costs, "title", tmp_path, None)
    numbers = json.loads((tmp_path / "windows.json").read_text())
    assert numbers["windows"] == [[1, 256, 256], [256, 128, 16]]
    assert numbers["loss"]["before"] == 10 and numbers["loss"]["after"] == pytest.approx(10.05)
    assert numbers["loss"]["rise"] == pytest.approx(0.5) and numbers["tolerance"] == 1
    assert numbers["utterances"]["b"] == {"positions": 210, "before": 12, "after": pytest.approx(12.06)}
    assert numbers["skipped"] == {"d": "no audio"} and numbers["passes"] == 42
    assert [each["share"] for each in numbers["proposals"]] == [0.8, 0.9] and len(numbers["steps"]) == 3
    first, second, third = numbers["lengths"]
    assert (first["time_ratio"], first["memory_ratio"]) == (0.5, 0.75)
    assert second["time_ratio"] is None and second["memory"] == {AFTER: 3e6}
    assert third["left_out"] == {"": "3600 s are more than it reads"}
    np.testing.assert_allclose(numbers["reach"], chosen.reach)
    assert "A position is" not in (tmp_path / "windows.html").read_text(encoding="utf-8")


def test_a_page_without_lengths_has_no_costs(tmp_path, chosen):
    write_windows(chosen, [], "title", tmp_path, None)
    assert "Time and memory" not in (tmp_path / "windows.html").read_text(encoding="utf-8") and saved([]) == []


def test_every_picture_is_readable(tmp_path, chosen, costs, monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, "save_figure", lambda figure, path: drawn.append(figure))
    pictures.draw_map(chosen, tmp_path)
    pictures.draw_reach(chosen.widths, chosen.reach, tmp_path)
    pictures.draw_search(chosen, tmp_path)
    pictures.draw_costs(costs, tmp_path)
    assert len(drawn) == 4
    for figure in drawn:
        assert isinstance(figure, Figure)
        assert_readable(figure)
    assert {text.get_text() for text in drawn[0].axes[0].texts} == {"1", "256", "128", "16"}
