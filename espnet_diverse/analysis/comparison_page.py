"""The page of `espnet-diverse compare`: first pictures, then tables."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from espnet_diverse.analysis.comparison import HEADER, System, columns, rows
from espnet_diverse.analysis.differences import Difference, Differences
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.pictures import save_figure
from espnet_diverse.scoring.figures.forest_plot import Series, draw_forest

_LISTED = 10
_ROW = 0.24  # height of a system in a forest plot, in inches


def write_page(
    systems: Sequence[System], metric: str, differences: Differences | None, pictures: dict[str, Path], path: Path
) -> None:
    """Write compare.html.

    Args:
        systems: The systems; others are compared with the first.
        metric: Name of the metric.
        differences: Differences by utterance; None without references.
        pictures: Pictures "scores", and with references "differences".
        path: The file.
    """
    page = Page(f"{metric}: {', '.join(system.name for system in systems)}")
    if differences is not None:
        page.heading("Differences")
        for difference in differences.found:
            page.paragraph(verdict(difference, systems[0].name, metric))
        page.picture(
            pictures["differences"],
            f"Above: {metric} of each system minus the score of {systems[0].name}, with 95 % intervals of the "
            "paired bootstrap over utterances. Below: the same of each utterance, sorted.",
            "intervals that do not hold 0: these systems differ. Below, a long flat middle and steep ends: the systems "
            "write the same texts except for a few utterances.",
        )
    page.heading("Scores")
    page.picture(
        pictures["scores"],
        f"{metric} of each system, by language, direction or domain if there are several, with 95 % intervals; "
        "further panels show it by the pool of heads and by parameters if the systems differ in them.",
        "intervals that do not overlap. If they do, the difference may still be certain: it is paired, "
        + ("see above." if differences is not None else "which --reference FILE measures."),
    )
    names = columns(systems)
    page.table([*HEADER, *(f"{metric} {name}" for name in names)], rows(systems, names))
    if differences is not None:
        for difference in differences.found:
            _utterances(page, differences, difference, metric)
    page.write(path)


def verdict(difference: Difference, first: str, metric: str) -> str:
    """Say in a sentence how a system differs from the first one, and whether that is certain."""
    low, high = difference.interval
    if len(difference.by_utterance) < 2:
        message = "one utterance has no interval and says nothing of others"
        return f"{difference.name} has {difference.difference:+.1f} {metric} against {first}; {message}."
    certain = "certain" if low > 0 or high < 0 else "not certain: the interval holds 0"
    return (
        f"{difference.name} has {difference.difference:+.1f} {metric} against {first} "
        f"(95 % interval {low:+.1f} to {high:+.1f}, p = {difference.p_value:.3f}), which is {certain}."
    )


def _utterances(page: Page, differences: Differences, difference: Difference, metric: str) -> None:
    largest = differences.largest(difference, _LISTED)
    first = next(iter(differences.texts))
    if not largest:
        page.paragraph(f"No utterance has a different {metric} with {difference.name} than with {first}.")
        return
    page.heading(f"Utterances that differ most: {difference.name} and {first}")
    header = ("utterance", metric, "reference", first, difference.name)
    page.table(header, [(name, f"{size:+.1f}", *texts) for name, size, *texts in largest])


def draw_comparison(systems: Sequence[System], metric: str, path: Path) -> None:
    """Write a PNG: a forest plot of the scores; with head selection also score by pool, and score by parameters.

    The panel of the pool is Fig. 2 of the head-selection paper: a line through the mean scores of each strategy. It
    begins at the model without selection that has as many heads, because a pool of H heads leaves no choice.
    """
    panels = [_forest]
    if any(system.strategy != "none" for system in systems):
        panels.append(_by_pool)
    if len({system.parameters for system in systems}) > 1:
        panels.append(_by_size)
    height = 1.6 + _ROW * len(systems) * len(columns(systems))
    figure = Figure(figsize=(1.5 + 4.8 * len(panels), max(3.2, height)), layout="constrained")
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, systems, metric)
        axes.grid(alpha=0.3)
    save_figure(figure, path)


def draw_differences(differences: Differences, metric: str, path: Path) -> None:
    """Plot differences from the first system: with intervals above, by utterance and sorted below."""
    figure = Figure(figsize=(6.4, 3.6 + _ROW * len(differences.found)), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(0.6 + _ROW * len(differences.found), 3))
    series = [
        Series(system.name, {system.name: [system.difference]}, {system.name: system.interval}, f"C{number}")
        for number, system in enumerate(differences.found, 1)
    ]
    draw_forest(above, [system.name for system in differences.found], series)
    for number, system in enumerate(differences.found):
        sizes = np.sort(system.by_utterance[np.isfinite(system.by_utterance)])
        below.step(np.arange(1, len(sizes) + 1), sizes, where="mid", color=f"C{number + 1}", label=system.name)
    above.set_xlabel(f"{metric}, difference from {next(iter(differences.texts))}")
    above.axvline(0, color="grey", linestyle="--", linewidth=1)
    below.axhline(0, color="grey", linestyle="--", linewidth=1)
    below.set(xlabel="utterances, sorted", ylabel=f"difference of {metric}")
    below.xaxis.get_major_locator().set_params(integer=True)
    below.legend(handles=below.lines[:-1], fontsize="small", loc="upper left")  # one by one: names may begin with "_"
    save_figure(figure, path)


def _forest(axes: Axes, systems: Sequence[System], metric: str) -> None:
    series = [
        Series(system.name, {name: [score] for name, score in system.scores.items()}, system.intervals, f"C{number}")
        for number, system in enumerate(systems)
    ]
    draw_forest(axes, columns(systems), series)
    handles = [Line2D([], [], color=entry.colour, marker=entry.marker, label=entry.label) for entry in series]
    axes.set_xlabel(metric)
    axes.legend(
        handles=handles, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False
    )


def _by_pool(axes: Axes, systems: Sequence[System], metric: str) -> None:
    for number, strategy in enumerate(dict.fromkeys(system.strategy for system in systems)):
        mine, colour = [system for system in systems if system.strategy == strategy], f"C{number % 10}"
        axes.scatter([system.pool for system in mine], [system.score() for system in mine], color=colour, s=24)
        axes.plot(*_means(mine, systems), color=colour, label=strategy)
    axes.set(xlabel="heads in the pool (P)", ylabel=metric)
    axes.set_xticks(sorted({system.pool for system in systems}))
    axes.legend(fontsize="small", title="strategy")


def _by_size(axes: Axes, systems: Sequence[System], metric: str) -> None:
    for number, system in enumerate(systems):
        at = (system.parameters / 1e6, system.score())
        axes.scatter(*at, color=f"C{number}")
        axes.annotate(system.name, at, (4, 4), textcoords="offset points", fontsize=7)
    axes.set(xlabel="parameters (millions)", ylabel=metric)
    axes.margins(x=0.15)  # room for the names


def _means(mine: Sequence[System], systems: Sequence[System]) -> tuple[list[int], list[float]]:
    """Return pool sizes in ascending order, and the mean score of each."""
    scores = defaultdict(list)
    heads = {system.heads for system in mine if system.pool > system.heads}
    plain = [system for system in systems if system.strategy == "none" and system.heads in heads]
    for system in [*mine, *plain]:
        scores[system.pool].append(system.score())
    pools = sorted(scores)
    return pools, [sum(scores[pool]) / len(scores[pool]) for pool in pools]
