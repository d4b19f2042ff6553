"""Pictures: what is drawn, with labelled axes, and no picture wider than a phone can show."""

import pytest
from matplotlib import image
from matplotlib.figure import Figure

from espnet_diverse.contest import figures
from espnet_diverse.contest.costs import Cost
from espnet_diverse.contest.curves import Curves
from espnet_diverse.contest.differences import Difference

BASE = Difference("softmax", {0: 20.0, 1: 21.0})
NEAR = Difference("sdma", {0: 21.0, 1: 21.5}, {0: 1.0, 1: 0.5}, (-2.4, 3.9), (0.2, 1.3), 0.03)
FAR = Difference("luna", {0: 19.0, 1: 22.0}, {0: -1.0, 1: 1.0}, (-12.7, 12.7), (-0.5, 0.5), 0.4)
COST = Cost(step=0.1, memory=2.0, parameters=5_000_000, batches=1, validation=1, start=1)


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """drawn(function, arguments) -> the figure that it has written."""
    written = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **given: (written.append(self), save(self, *args, **given))
    )

    def draw(function, *arguments):
        function(*arguments, tmp_path / "picture.png")
        assert image.imread(tmp_path / "picture.png").shape[1] < 900
        assert written[-1].get_size_inches()[0] < 5  # so that its letters are large enough
        assert all(axes.get_xlabel() for axes in written[-1].axes)
        return written[-1]

    return draw


@pytest.mark.parametrize(("metric", "better"), [("bleu", "better →"), ("cer", "← better")])
def test_a_forest_says_which_side_is_better(drawn, metric, better):
    (axes,) = drawn(figures.draw_differences, [BASE, NEAR], metric, "test").axes
    assert axes.get_xlabel() == f"{metric.upper()}, difference from softmax\n({better})"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["sdma"]
    assert [text.get_text() for text in axes.texts] == ["+0.8"]


def test_long_names_are_wrapped_and_not_cut(drawn):
    base = Difference("a long name of a baseline, with its options", BASE.scores)
    figure = drawn(figures.draw_differences, [base, NEAR], "word_perplexity", "test")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for text in (axes.xaxis.label, axes.title):
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()


def test_a_long_interval_does_not_hide_the_others(drawn):
    """Seeds are at most 1 from the baseline and sentences 1.3, so the picture ends at 3 times that, with arrows."""
    (axes,) = drawn(figures.draw_differences, [BASE, NEAR, FAR], "bleu", "test").axes
    assert axes.get_xlim() == pytest.approx((-3.9 * 1.08, 3.9 * 1.08))
    arrows = {
        (line.get_marker(), round(float(line.get_xdata()[0]), 9)) for line in axes.lines if line.get_marker() in "<>"
    }
    assert arrows == {("<", -3.9), (">", 3.9)}


def test_costs_have_a_marker_for_each_method_that_was_timed(drawn):
    figure = drawn(figures.draw_costs, [BASE, NEAR, FAR], {"softmax": COST, "luna": COST}, "bleu", "test")
    assert [axes.get_xlabel() for axes in figure.axes] == [
        *("time of a batch in training (ms)", "peak memory in training (GB)", "parameters (millions)"),
    ]
    labels = [line.get_label() for line in figure.axes[0].lines if not line.get_label().startswith("_")]
    assert labels == ["softmax", "luna"]


def test_curves_are_means_over_seeds(drawn):
    values = {"softmax": {0: {1: 0.0, 2: 0.5}, 1: {1: 0.2, 2: 0.7}}, "luna": {0: {1: 0.1}}}
    (axes,) = drawn(figures.draw_curves, [Curves("accuracy", values)], ["softmax", "sdma", "luna"]).axes
    assert list(axes.lines[0].get_ydata()) == pytest.approx([0.1, 0.6])
    assert axes.lines[1].get_color() == "C2"  # as in the other pictures, where sdma is the second
    assert axes.get_ylabel() == "accuracy, validation"


def test_redundancy_is_drawn_where_it_was_measured(drawn):
    measured = {"softmax": {"encoder": {"lr_normalised": 0.2}, "cross": {"lr_normalised": None}}}
    (axes,) = drawn(figures.draw_redundancy, measured).axes
    assert [(line.get_label(), list(line.get_xdata())) for line in axes.lines] == [("encoder", [0.2])]
