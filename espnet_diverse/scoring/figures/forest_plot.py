"""Forest plots: rows of points with intervals, narrow and in large letters, so that a phone can show them too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from espnet_diverse.pictures import save_figure

WIDTH, DPI = 4.4, 180  # inches; letters of 10 points have 11 pixels on a phone that is 390 pixels wide
SMALL = 9  # points
_LETTER, _SHORT = 0.085, 16  # inches of a letter, and letters of a name that do not widen a picture


@dataclass(frozen=True)
class Series:
    """Points and intervals that are drawn alike.

    Attributes:
        label: Name in the legend.
        points: Points by row.
        intervals: Bounds of the interval by row.
        colour: Colour of the intervals.
        marker: Marker of the points.
        ink: Colour of the points; by default the intervals' colour.
        width: Width of the intervals, in points.
    """

    label: str
    points: Mapping[str, Sequence[float]] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    colour: str = "C0"
    marker: str = "o"
    ink: str = ""
    width: float = 2


def draw_forest(
    axes: Axes, rows: Sequence[str], series: Sequence[Series], reach: tuple[float, float] | None = None
) -> None:
    """Draw rows from top to bottom, and within a row the series that have it.

    Args:
        axes: The axes, which get the names of the rows.
        rows: Names of the rows.
        series: The series.
        reach: Bounds of the axis; a longer interval ends with an arrow. By default all is shown.
    """
    for at, row in enumerate(rows):
        present = [entry for entry in series if row in entry.points or row in entry.intervals]
        for number, entry in enumerate(present, 1):
            y = at - 0.5 + number / (len(present) + 1)
            if row in entry.intervals:
                _draw_interval(axes, y, entry.intervals[row], entry, reach)
            if points := entry.points.get(row):
                ink = entry.ink or entry.colour
                axes.plot(points, [y] * len(points), entry.marker, color=ink, markersize=6, zorder=3)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)


def save_forest(
    rows: Sequence[str], series: Sequence[Series], label: str, title: str, path: Path, line: float | None = None
) -> None:
    """Write a forest plot, with a legend if there are several series.

    Args:
        rows: Names of the rows.
        series: The series.
        label: What is measured, for the axis.
        title: Title of the picture.
        path: The file.
        line: Where to draw a dashed line.
    """
    height = 1.3 + 0.12 * len(rows) * (1 + len(series)) + 0.25 * (len(series) > 1) * len(series)
    longest = max(map(len, rows))
    figure = Figure(figsize=(WIDTH + _LETTER * max(0, longest - _SHORT), height), layout="constrained")
    axes = figure.subplots()
    if line is not None:
        axes.axvline(line, color="grey", linestyle="--", linewidth=1)
    draw_forest(axes, rows, series)
    axes.set_xlabel(label, wrap=True)
    axes.set_title(title, fontsize=11, wrap=True)
    if len(series) > 1:
        styles = [{"color": entry.colour, "linewidth": entry.width, "marker": entry.marker} for entry in series]
        handles = [Line2D([], [], label=entry.label, **style) for entry, style in zip(series, styles, strict=True)]
        figure.legend(handles=handles, loc="outside lower center", frameon=False, fontsize=SMALL)
    save_figure(figure, path, DPI)


def _draw_interval(
    axes: Axes, y: float, bounds: tuple[float, float], series: Series, reach: tuple[float, float] | None
) -> None:
    ends = [min(max(bound, reach[0]), reach[1]) for bound in bounds] if reach else bounds
    axes.plot(ends, [y, y], color=series.colour, linewidth=series.width, solid_capstyle="butt")
    for end, bound, marker in zip(ends, bounds, "<>", strict=True):
        if end != bound:
            axes.plot([end], [y], marker, color=series.colour, markersize=8)
