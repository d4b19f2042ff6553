"""Plots of the results of `clusters`, `query_map`, `redundancy` and `head_sharing`, and of all heads at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS, VECTORS
from espnet_diverse.analysis.figures.positions import Positions
from espnet_diverse.analysis.measures.clusters import ClusterUse
from espnet_diverse.analysis.measures.head_sharing import Ownership
from espnet_diverse.analysis.measures.redundancy import Redundancy
from espnet_diverse.analysis.rounding import half_interval
from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.pictures import save_figure

_ROW = 0.2  # height of a labelled row of a heat map, in inches
_SMALL = 8  # points
_BRIGHTEST = 0.99  # share of the cells that are not the brightest


def draw_pairs(title: str, matrix: NDArray, shape: tuple[int, int], path: Path) -> None:
    """Plot the redundancy of every two heads, (N H, N H), as in Figs 10 and 11 of the SDMA paper; `shape` is (N, H)."""
    side = max(4.5, 1.8 + _ROW * len(matrix))
    figure = Figure(figsize=(side + 1.2, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(matrix, vmin=0.0, vmax=1.0, interpolation="nearest")
    names = head_names(shape)
    axes.set_xticks(range(len(names)), names, fontsize=_SMALL, rotation=90)
    axes.set_yticks(range(len(names)), names, fontsize=_SMALL)
    _separate_layers(axes, shape)
    for layer in range(1, shape[0]):
        axes.axvline(layer * shape[1] - 0.5, color="white", linewidth=1)
    axes.set_xlabel("layer.head")
    axes.set_ylabel("layer.head")
    axes.set_title(f"{title}: redundancy of heads")
    figure.colorbar(image, ax=axes, label="redundancy of two heads, 1 − JS (bits)", shrink=0.8)
    save_figure(figure, path)


def draw_clusters(title: str, uses: Mapping[str, ClusterUse], path: Path) -> None:
    """Plot cluster usage by layer and head, with perplexities beside the rows; `uses` are by kind of position."""
    usages = {clustered: use.usage() for clustered, use in uses.items()}
    layers, heads = next(iter(usages.values())).shape[:2]
    widths = [usage.shape[-1] + 8 for usage in usages.values()]
    size = (1.5 + 0.3 * sum(widths), 1.8 + _ROW * layers * heads)
    figure = Figure(figsize=(size[0], max(3.0, size[1])), layout="constrained")
    figure.suptitle(f"{title}: use of clusters")
    most = max(usage.max() for usage in usages.values())
    panels = figure.subplots(1, len(usages), squeeze=False, width_ratios=widths)[0]
    for axes, (clustered, usage) in zip(panels, usages.items(), strict=True):
        rows = usage.reshape(layers * heads, -1)
        image = axes.imshow(rows, aspect="auto", vmin=0.0, vmax=most, interpolation="nearest")
        axes.set_yticks(range(len(rows)), head_names((layers, heads)), fontsize=_SMALL)
        axes.set_xticks(range(rows.shape[1]), range(1, rows.shape[1] + 1), fontsize=_SMALL)
        _separate_layers(axes, (layers, heads))
        axes.set_xlabel("cluster")
        axes.set_title(clustered, fontsize="medium")
        _label_perplexities(axes, uses[clustered])
    panels[0].set_ylabel("layer.head")
    figure.colorbar(image, ax=list(panels), label="share of all positions")
    save_figure(figure, path)


def _label_perplexities(axes: Axes, use: ClusterUse) -> None:
    pairs = zip(use.usage_perplexity().flat, use.own_perplexity().flat, strict=True)
    labels = [f"{usage:.2f} | {per_position:.2f}" for usage, per_position in pairs]
    right = axes.twinx()
    right.set_ylim(axes.get_ylim())
    right.set_yticks(range(len(labels)), labels, fontsize=_SMALL)
    right.set_ylabel("clusters used | clusters a position", fontsize=_SMALL)


def draw_posteriors(
    title: str,
    posteriors: Mapping[str, NDArray],
    tokens: Mapping[str, Sequence[str]],
    path: Path,
    times: FrameTimes | None = None,
) -> None:
    """Plot cluster probabilities of one layer on one utterance, as in Figs 6 (a) and 7 (a) of the SDMA paper.

    Args:
        title: Title of the plot.
        posteriors: Cluster probabilities (H, T, C) by clustered tensor. Each has a column, and each head a row.
        tokens: Labels of the T positions by clustered tensor, if these are tokens; others are encoder frames.
        path: The file to write.
        times: Times of the encoder frames, if they are known.
    """
    heads = len(next(iter(posteriors.values())))
    clusters = max(values.shape[-1] for values in posteriors.values())
    size = (1.5 + 5.5 * len(posteriors), 1.8 + heads * max(1.2, 0.35 + 0.16 * clusters))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{title}: cluster probabilities")
    grid = figure.subplots(heads, len(posteriors), squeeze=False, sharex="col")
    for column, (clustered, values) in zip(grid.T, posteriors.items(), strict=True):
        made = {"counted": VECTORS} if clustered == VECTORS else {"times": times}
        across = Positions(values.shape[1], tokens.get(clustered), **made)
        extent = (*across.bounds, values.shape[-1] - 0.5, -0.5)
        for head, axes in enumerate(column):
            image = axes.imshow(
                values[head].T, aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest", extent=extent
            )
            axes.set_title(f"head {head + 1}: {clustered}", fontsize="medium")
            axes.set_yticks(range(values.shape[-1]), range(1, values.shape[-1] + 1), fontsize=_SMALL)
            axes.set_ylabel("cluster")
        across.describe(column[-1].xaxis, most=min(9, 240 / across.count))
        if clustered in tokens:
            column[-1].tick_params(axis="x", rotation=90)
    figure.colorbar(image, ax=list(grid.flat), label="cluster probability", shrink=0.6)
    save_figure(figure, path)


def draw_sharing(owned: Ownership, path: Path) -> None:
    """Plot the number of heads that two languages or domains share, as in Fig. 3 of the head-selection paper."""
    shared, most = owned.sharing(), owned.picks[0].size
    side = max(3.5, 1.2 + 0.42 * len(shared))
    figure = Figure(figsize=(side + 1.4, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shared, cmap="Blues", vmin=0, vmax=most, interpolation="nearest")
    axes.set_xticks(range(len(shared)), owned.values, fontsize=_SMALL, rotation=90)
    axes.set_yticks(range(len(shared)), owned.values, fontsize=_SMALL)
    for (row, column), count in np.ndenumerate(shared):
        colour = "white" if count > 0.6 * most else "black"
        axes.text(column, row, str(count), ha="center", va="center", fontsize=_SMALL, color=colour)
    axes.set_title(owned.name, fontsize="medium")
    figure.colorbar(image, ax=axes, label="heads shared, all layers", shrink=0.8)
    save_figure(figure, path)


def draw_picks(owned: Ownership, path: Path) -> None:
    """Plot the heads of each language or domain: a panel for each layer, with a column for each head of the pool."""
    values, layers, _ = owned.picks.shape
    columns = min(layers, 6)
    rows = -(-layers // columns)
    size = (
        1.4 + 0.14 * max(map(len, owned.values)) + _ROW * columns * (owned.pool + 1),
        1 + rows * (0.7 + _ROW * values),
    )
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{owned.name}: heads of each")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for layer, axes in enumerate(grid.flat):
        axes.set_visible(layer < layers)
        if layer < layers:
            mine = (owned.picks[:, layer, :, None] == np.arange(owned.pool)).any(1)
            axes.imshow(mine, cmap="Blues", vmin=0, vmax=1.3, interpolation="nearest")
            axes.set_title(f"layer {layer + 1}", fontsize="medium")
            axes.set_xticks(range(owned.pool), range(1, owned.pool + 1), fontsize=_SMALL)
            axes.set_yticks(range(values), owned.values, fontsize=_SMALL)
            axes.set_xticks(np.arange(owned.pool + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(values + 1) - 0.5, minor=True)
            axes.grid(which="minor", color="white", linewidth=1)
            axes.tick_params(which="minor", length=0)
    figure.supxlabel("head of the pool", fontsize="medium")
    save_figure(figure, path)


def draw_queries(points: Mapping[str, NDArray], path: Path) -> None:
    """Plot queries on a plane, coloured by head, as in Figs 8 and 9 of the SDMA paper.

    Args:
        points: Points (H, n, 2) by title; each title has a panel.
        path: The file to write.
    """
    figure = Figure(figsize=(1 + 4.6 * len(points), 5.2), layout="constrained")
    panels = figure.subplots(1, len(points), squeeze=False)[0]
    most = max(len(queries) for queries in points.values())
    colours = _colours(most)
    for axes, (title, queries) in zip(panels, points.items(), strict=True):
        heads = np.repeat(np.arange(len(queries)), queries.shape[1])
        order = np.random.default_rng(0).permutation(len(heads))  # so that no head hides the others
        x, y = queries.reshape(-1, 2)[order].T
        axes.scatter(x, y, c=heads[order], cmap=colours, vmin=-0.5, vmax=most - 0.5, s=7, linewidths=0)
        axes.set(title=title, xlabel="t-SNE dimension 1", ylabel="t-SNE dimension 2", xticks=[], yticks=[])
    marks = [panels[0].scatter([], [], color=colours(head), s=40, label=f"head {head + 1}") for head in range(most)]
    figure.legend(handles=marks, loc="outside lower center", ncols=min(most, 8), frameon=False)
    save_figure(figure, path)


def _colours(count: int) -> Colormap:
    if count <= 10:
        return ListedColormap(colormaps["tab10"].colors[:count])
    return colormaps["turbo"].resampled(count)


def head_names(shape: tuple[int, int]) -> list[str]:
    """Names of N H heads, such as "2.3" for head 3 of layer 2; `shape` is (N, H)."""
    return [f"{layer}.{head}" for layer in range(1, shape[0] + 1) for head in range(1, shape[1] + 1)]


def _separate_layers(axes: Axes, shape: tuple[int, int]) -> None:
    for layer in range(1, shape[0]):
        axes.axhline(layer * shape[1] - 0.5, color="white", linewidth=1)


def draw_layers(kinds: Mapping[str, Redundancy], path: Path) -> None:
    """Plot LR / log2 H by layer, a line for each kind of attention, with 95 % intervals over utterances as bands."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (kind, stats) in enumerate(kinds.items()):
        layers = np.stack(stats.layers) / np.log2(stats.shape[1])  # (utterances, N)
        mean, half = layers.mean(0), np.nan_to_num([half_interval(layer) for layer in layers.T])
        at = np.arange(1, len(mean) + 1)
        axes.plot(at, mean, marker="o", color=f"C{number}", label=KINDS[kind])
        axes.fill_between(at, mean - half, mean + half, color=f"C{number}", alpha=0.2, linewidth=0)
    axes.set(ylim=(0, 1), xlabel="layer", ylabel="LR / log2 H", title="How alike the heads of a layer are")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_yticks([0, 0.5, 1], ["0, all differ", "0.5", "1, all alike"])
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")
    save_figure(figure, path)


def draw_all_heads(title: str, weights: Tensor, path: Path) -> None:
    """Plot the attention of every head for one utterance, (N, H, Tq, Tk), each head on its own scale."""
    layers, heads = weights.shape[:2]
    figure = Figure(figsize=(0.8 + 1.1 * heads, 0.8 + 1.1 * layers), layout="constrained")
    grid = figure.subplots(layers, heads, squeeze=False)
    for layer, row in enumerate(grid, 1):
        for head, axes in enumerate(row, 1):
            shown = weights[layer - 1, head - 1].numpy()
            brightest = np.quantile(shown, _BRIGHTEST) or shown.max()  # few cells would leave all others dark
            axes.imshow(shown, vmin=0, vmax=brightest, aspect="auto", interpolation="antialiased")
            axes.set(xticks=[], yticks=[])
            if layer == 1:
                axes.set_title(f"head {head}", fontsize=_SMALL)
            if head == 1:
                axes.set_ylabel(f"layer {layer}", fontsize=_SMALL)
    figure.suptitle(title, fontsize="medium")
    save_figure(figure, path)
