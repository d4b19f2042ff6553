"""Rows of points with intervals."""

import pytest
from matplotlib.figure import Figure
from references.figures import assert_readable

from espnet_diverse.scoring.figures.forest_plot import Series, draw_forest, save_forest

ONE = Series("one", {"a": [1.0], "b": [2.0, 3.0]}, {"a": (0.0, 1.5), "b": (1.0, 9.0)}, "C0")
TWO = Series("two", {"b": [2.5]}, {"b": (2.0, 3.0)}, "C1", "D")


def lines_of(axes):
    return [(line.get_marker(), list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]


def test_a_series_that_a_row_lacks_takes_no_place_in_it():
    axes = Figure().subplots()
    draw_forest(axes, ["a", "b"], [ONE, TWO])
    third = pytest.approx(1 - 0.5 + 1 / 3)
    assert lines_of(axes)[:2] == [("None", [0.0, 1.5], [0, 0]), ("o", [1.0], [0])]
    assert lines_of(axes)[2:4] == [("None", [1.0, 9.0], [third] * 2), ("o", [2.0, 3.0], [third] * 2)]
    assert [x for _, x, _ in lines_of(axes)[4:]] == [[2.0, 3.0], [2.5]]
    assert axes.get_ylim() == (1.5, -0.5)


def test_an_interval_beyond_the_axis_ends_with_an_arrow():
    axes = Figure().subplots()
    draw_forest(axes, ["b"], [ONE], (1.5, 4.0))
    assert [(marker, x) for marker, x, _ in lines_of(axes)] == [
        ("None", [1.5, 4.0]),
        ("<", [1.5]),
        (">", [4.0]),
        ("o", [2.0, 3.0]),
    ]


def test_long_names_and_many_rows_stay_readable(drawn, tmp_path):
    rows = [f"decode/mtedx-test {n}-en" for n in range(40)]
    series = [Series(f"baseline: system {k} with a long name", {row: [k + 9.0] for row in rows}, {}) for k in range(2)]
    save_forest(rows, series, "BLEU (better →)", "decode/mtedx-test", tmp_path / "forest.png", 9.5)
    assert_readable(drawn[0])
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == [each.label for each in series]
