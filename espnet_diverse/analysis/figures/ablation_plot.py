"""Plots of `head_ablation`: the distribution of heads by drop, and the drop of each head."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.analysis.measures.ablation_metrics import LOWER_IS_BETTER
from espnet_diverse.analysis.measures.head_ablation import HeadAblation

_NAMES = {
    "loss": "loss (nats a token)",
    "accuracy": "accuracy (% of tokens)",
    "cer": "CER (%)",
    "wer": "WER (%)",
    "bleu": "BLEU (points)",
    "chrf": "chrF (points)",
}
_BINS = 20
_DPI = 110
_SMALL = 8  # points


def axis_label(metric: str) -> str:
    """Return what a drop of performance is, with its unit, for example "rise of loss (nats a token)"."""
    return f"{'rise' if metric in LOWER_IS_BETTER else 'fall'} of {_NAMES[metric]}"


def draw_drop_histogram(ablation: HeadAblation, path: Path) -> None:
    """Plot the number of heads by drop, stacked by kind of attention, as in Fig. 2 of the repulsive-attention paper."""
    drops = {kind: each.ravel() for kind, each in ablation.drops().items()}
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    edges = np.histogram_bin_edges(np.concatenate(list(drops.values())), _BINS)
    axes.hist(list(drops.values()), edges, stacked=True, label=[KINDS[kind] for kind in drops], edgecolor="white")
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(f"performance drop without the head: {axis_label(ablation.metric)}")
    axes.set_ylabel("number of heads")
    axes.set_title("Heads by performance drop after masking")
    axes.legend(fontsize=_SMALL)
    figure.savefig(path, dpi=_DPI)


def draw_drops(ablation: HeadAblation, path: Path) -> None:
    """Plot the drop of each head: a panel for each kind, a row for each layer, a column for each head; 0 is white."""
    drops = ablation.drops()
    most = max(abs(each).max() for each in drops.values()) or 1.0
    layers, widths = max(map(len, drops.values())), [each.shape[1] for each in drops.values()]
    figure = Figure(
        figsize=(2 + 0.5 * sum(widths) + 0.9 * len(drops), 1.6 + 0.3 * max(3, layers)), layout="constrained"
    )
    figure.suptitle("Performance drop without each head")
    panels = figure.subplots(1, len(drops), squeeze=False, width_ratios=widths)[0]
    for axes, (kind, values) in zip(panels, drops.items(), strict=True):
        image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1), fontsize=_SMALL)
        axes.set_yticks(range(len(values)), range(1, len(values) + 1), fontsize=_SMALL)
        axes.set(xlabel="head", ylabel="layer")
        axes.set_title(KINDS[kind].replace(" ", "\n", 1), fontsize="small")
    figure.colorbar(image, ax=list(panels), label=axis_label(ablation.metric))
    figure.savefig(path, dpi=_DPI)
