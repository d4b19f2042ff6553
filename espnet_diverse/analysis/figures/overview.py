"""Plots that an analysis begins with: redundancy of every layer, and all heads at one glance."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.analysis.measures.redundancy import Redundancy
from espnet_diverse.analysis.rounding import half_interval
from espnet_diverse.data.files.atomic_files import save_figure

_SMALL = 8  # points
_BRIGHTEST = 0.99  # share of the cells that are not the brightest


def draw_layers(kinds: Mapping[str, Redundancy], path: Path) -> None:
    """Plot LR / log2 H by layer, a line for each kind of attention, with 95 % intervals over utterances as bands."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (kind, each) in enumerate(kinds.items()):
        layers = np.stack(each.layers) / np.log2(each.shape[1])  # (utterances, N)
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
    """Plot the attention of every head for one utterance, (N, H, Tq, Tk), each head on a scale of its own."""
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
