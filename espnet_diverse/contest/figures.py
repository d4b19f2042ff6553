"""Pictures of a contest. They are narrow and their letters large, so that they can be read on a phone too."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from espnet_diverse.contest.costs import Cost
from espnet_diverse.contest.curves import Curves
from espnet_diverse.contest.differences import Difference, shown_difference
from espnet_diverse.contest.redundant_heads import KINDS
from espnet_diverse.pictures import save_figure
from espnet_diverse.scoring.figures.forest_plot import DPI, SMALL, WIDTH, Series, draw_forest
from espnet_diverse.scoring.metric import better_side, lower_is_better, shown_name

_LINES = ("-", "--", "-.", ":")
_SEEDS, _SENTENCES = "#1f5fa8", "#d1660a"
_REACH = 3.0  # an interval that is longer than this many times the spread of all else is cut, with an arrow


def draw_differences(differences: Sequence[Difference], metric: str, data_set: str, path: Path) -> None:
    """Draw the differences of the methods from the baseline, the first one, with their two intervals."""
    baseline, *others = differences
    names = [result.method for result in others]
    figure = Figure(figsize=(WIDTH, 1.9 + 0.62 * len(others)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="#444444", linewidth=1)
    reach = _reach(others)
    draw_forest(axes, names, _series(others), (-reach, reach))
    for row, result in enumerate(others):
        if result.by_seed:
            shown = shown_difference(result.mean, signed=True).replace("-", "−")
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            place = {"textcoords": "offset points", "ha": "center", "fontsize": SMALL, "bbox": box}
            axes.annotate(shown, (result.mean, row), (0, 20), **place)
    axes.set_ylim(len(names) - 0.4, -0.75)
    axes.set_xlim(-reach * 1.08, reach * 1.08)
    axes.set_xlabel(f"{shown_name(metric)}, difference from {baseline.method}\n({better_side(metric)})", wrap=True)
    axes.set_title(f"{data_set}: difference from {baseline.method}", fontsize=11, wrap=True)
    figure.legend(handles=_forest_legend(others), loc="outside lower center", ncols=2, frameon=False, fontsize=SMALL)
    save_figure(figure, path, DPI)


def _series(compared: Sequence[Difference]) -> list[Series]:
    """Intervals over sentences; means; and intervals over seeds, with a mark for each seed."""
    sentences = {result.method: result.over_sentences for result in compared if result.over_sentences}
    means = {result.method: [result.mean] for result in compared if result.by_seed}
    seeds = {result.method: list(result.by_seed.values()) for result in compared}
    over_seeds = {result.method: result.over_seeds for result in compared if result.over_seeds}
    return [
        Series("sentences", {}, sentences, _SENTENCES),
        Series("means", means, {}, "black", "D"),
        Series("seeds", seeds, over_seeds, _SEEDS, "|", "black", 4),
    ]


def _forest_legend(compared: Sequence[Difference]) -> list[Line2D]:
    """The marks that the picture has."""
    marks = [
        (any(result.over_seeds for result in compared), {"color": _SEEDS, "linewidth": 4, "label": "95 % over seeds"}),
        (
            any(result.over_sentences for result in compared),
            {"color": _SENTENCES, "linewidth": 2, "label": "95 % over sentences"},
        ),
        (True, {"color": "black", "marker": "D", "linestyle": "", "markersize": 6, "label": "mean over seeds"}),
        (True, {"color": "black", "marker": "|", "linestyle": "", "markersize": 6, "label": "one seed"}),
    ]
    return [Line2D([], [], **style) for is_drawn, style in marks if is_drawn]


def _reach(compared: Sequence[Difference]) -> float:
    """Half the width of a forest plot: enough for all seeds, and for intervals that are not much longer."""
    points = [abs(value) for result in compared for value in (*result.by_seed.values(), *(result.over_sentences or ()))]
    bounds = [abs(value) for result in compared for value in result.over_seeds or ()]
    spread = max(points, default=0.0)
    return max(spread, min(max(bounds, default=0.0), _REACH * spread)) or 1.0


def draw_costs(
    differences: Sequence[Difference], costs: Mapping[str, Cost], metric: str, data_set: str, path: Path
) -> None:
    """Draw the mean score of each method against the time of a batch, the memory and the number of parameters."""
    shown = [(number, result) for number, result in enumerate(differences) if result.method in costs and result.scores]
    unit, title = (
        (1e6, "millions") if all(costs[result.method].parameters >= 1e6 for _, result in shown) else (1e3, "thousands")
    )
    panels = (
        ("time of a batch in training (ms)", lambda cost: 1e3 * cost.step),
        ("peak memory in training (GB)", lambda cost: cost.memory),
        (f"parameters ({title})", lambda cost: cost.parameters / unit),
    )
    figure = Figure(figsize=(WIDTH, 7.6 + 0.28 * math.ceil(len(shown) / 2)), layout="constrained")
    figure.suptitle(f"{shown_name(metric)} on {data_set} against costs", fontsize=11, wrap=True)
    for axes, (label, value) in zip(figure.subplots(len(panels), 1), panels, strict=True):
        for number, result in shown:
            x, scores = value(costs[result.method]), list(result.scores.values())
            axes.plot([x] * len(scores), scores, "_", color=_colour(number), markersize=9)
            mean = statistics.mean(scores)
            axes.plot([x], [mean], _marker(number), color=_colour(number), markersize=8, label=result.method)
        axes.set_xlabel(label)
        side = "low" if lower_is_better(metric) else "high"
        axes.set_ylabel(f"{shown_name(metric)} ({side} is good)", fontsize=SMALL, wrap=True)
        axes.margins(x=0.15, y=0.15)
        axes.ticklabel_format(useOffset=False)
        axes.xaxis.get_major_locator().set_params(nbins=4)
        axes.grid(alpha=0.3)
    _method_legend(figure, axes)
    save_figure(figure, path, DPI)


def draw_curves(curves: Sequence[Curves], methods: Sequence[str], path: Path) -> None:
    """Draw the learning curves over each other: mean and range of the seeds; `methods` are all of the contest."""
    count = max(len(curve.methods) for curve in curves)
    figure = Figure(figsize=(WIDTH, 3.2 * len(curves) + 0.28 * math.ceil(count / 2)), layout="constrained")
    for axes, curve in zip(figure.subplots(len(curves), 1, squeeze=False)[:, 0], curves, strict=True):
        for method, seeds in curve.methods.items():
            number = methods.index(method)
            epochs = sorted(set.intersection(*(set(values) for values in seeds.values())))
            columns = [[values[epoch] for values in seeds.values()] for epoch in epochs]
            means = [statistics.mean(column) for column in columns]
            colour = _colour(number)
            axes.fill_between(epochs, list(map(min, columns)), list(map(max, columns)), color=colour, alpha=0.15)
            marker = _marker(number) if len(epochs) < 30 else ""
            line = _LINES[number % len(_LINES)]  # where two curves are one, both can be seen
            axes.plot(epochs, means, line, color=colour, marker=marker, markersize=5, label=method)
        axes.set_xlabel("epoch")
        axes.set_ylabel(f"{curve.title}, validation", wrap=True)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    _method_legend(figure, axes)
    save_figure(figure, path, DPI)


def draw_redundancy(measured: Mapping[str, Mapping[str, Mapping[str, float | None]]], path: Path) -> None:
    """Draw how alike the heads of a layer are, LR / log2 H, by method and kind of attention."""
    figure = Figure(figsize=(WIDTH, 1.8 + 0.45 * len(measured)), layout="constrained")
    axes = figure.subplots()
    for number, (kind, title) in enumerate(KINDS.items()):
        points = [
            (row, kinds[kind]["lr_normalised"])
            for row, kinds in enumerate(measured.values())
            if kind in kinds and kinds[kind]["lr_normalised"] is not None
        ]
        if points:
            rows, values = zip(*points, strict=True)
            axes.plot(values, rows, _marker(number), color=_colour(number), markersize=8, label=title)
    axes.set_yticks(range(len(measured)), list(measured))
    axes.set_ylim(len(measured) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("LR / log2 H (0: heads differ, 1: all alike)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=SMALL)
    save_figure(figure, path, DPI)


def _method_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=SMALL)


def _colour(number: int) -> str:
    return f"C{number % 10}"


def _marker(number: int) -> str:
    """A marker; it changes after every ten methods, when colours repeat."""
    return "osD^vP*X"[(number + number // 10) % 8]
