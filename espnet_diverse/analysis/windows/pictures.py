"""Pictures of the windows of a model: the map of layers and heads, their reach, the search, cost against length."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from espnet_diverse.analysis.windows.choice import Windows
from espnet_diverse.analysis.windows.lengths import NAMES, Cost
from espnet_diverse.pictures import save_figure

_SMALL = 8  # points
_GREY = 0.55  # part of the colour scale from which numbers are black


def draw_map(chosen: Windows, path: Path) -> None:
    """Plot the width of each head's window: a row for each layer, a column for each head, as numbers and colours."""
    levels, widths = chosen.path[-1].levels, chosen.chosen()
    layers, heads = widths.shape
    figure = Figure(figsize=(2.2 + 0.62 * heads, 1.6 + 0.36 * max(3, layers)), layout="constrained")
    axes = figure.subplots()
    last = max(len(chosen.widths) - 1, 1)
    image = axes.imshow(levels, vmin=0, vmax=last, aspect="auto", interpolation="nearest")
    for (layer, head), width in np.ndenumerate(widths):
        ink = "black" if levels[layer, head] > _GREY * last else "white"
        axes.text(head, layer, str(width), ha="center", va="center", color=ink, fontsize=_SMALL)
    axes.set_xticks(range(heads), range(1, heads + 1), fontsize=_SMALL)
    axes.set_yticks(range(layers), range(1, layers + 1), fontsize=_SMALL)
    axes.set(xlabel="head", ylabel="layer", title="Windows: positions on each side")
    bar = figure.colorbar(image, ax=axes, ticks=range(len(chosen.widths)))
    bar.ax.set_yticklabels([str(width) for width in chosen.widths], fontsize=_SMALL)
    save_figure(figure, path)


def draw_reach(widths: Sequence[int], reach: NDArray, path: Path) -> None:
    """Plot the share of the weight within each width, (N, H, W): a line for each head, coloured by its layer."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    colours = colormaps["viridis"](np.linspace(0, 0.95, len(reach)))
    for layer, (heads, colour) in enumerate(zip(reach, colours, strict=True), 1):
        for head, shares in enumerate(heads):
            label = f"layer {layer}" if head == 0 else None
            axes.plot(widths, 100 * shares, color=colour, linewidth=1, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [str(width) for width in widths], fontsize=_SMALL)
    axes.minorticks_off()
    axes.set(ylim=(0, 101), xlabel="positions on each side", ylabel="weight within (%)", title="Reach of each head")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=_SMALL, ncols=2)
    save_figure(figure, path)


def draw_search(chosen: Windows, path: Path) -> None:
    """Plot the rise of the loss against the share of pairs that remain, for the proposals and for each step."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for states, name, mark in ((chosen.proposals, "proposed by reach", "s"), (chosen.path, "steps of the search", ".")):
        points = sorted((100 * chosen.pairs(state), chosen.rise(state)) for state in states)
        axes.plot(*zip(*points, strict=True), marker=mark, linewidth=1, label=name)
    axes.axhline(chosen.tolerance, color="grey", linestyle="--", linewidth=1, label="tolerance")
    lowest = min(0.0, *(chosen.rise(state) for state in chosen.path))
    axes.set_ylim(lowest - chosen.tolerance / 2, 3 * chosen.tolerance)  # proposals may be far above
    axes.set(xlabel="pairs of positions that heads see (%)", ylabel="rise of the loss (%)", title="Search")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=_SMALL)
    save_figure(figure, path)


def draw_costs(costs: Sequence[Cost], path: Path) -> None:
    """Plot time and memory of the encoder against the length of the audio, with and without windows."""
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    times, memory = figure.subplots(1, 2)
    measured = [cost for cost in costs if cost.counts]
    for name in NAMES:
        points = [cost for cost in measured if name in cost.counts]
        seconds = [cost.seconds for cost in points]
        times.plot(seconds, [median(cost.times[name]) for cost in points], marker="o", label=name)
        memory.plot(seconds, [cost.counts[name].peak / 1e6 for cost in points], marker="o", label=name)
    for axes, label in ((times, "CPU seconds, one thread"), (memory, "peak memory (MB)")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xticks([cost.seconds for cost in measured], [f"{cost.seconds:g}" for cost in measured])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.set(xlabel="length of the audio (s)", ylabel=label)
        axes.grid(alpha=0.3)
    times.legend(fontsize=_SMALL)
    save_figure(figure, path)
