"""The plots of `calibration`: reliability diagram and distribution of entropies, as Figs 4 and 5 of An et al. 2020."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from espnet_diverse.analysis.measures.calibration import Calibration

_DPI = 110
_POINTS = 400


def draw_reliability(measured: Mapping[str, Calibration], path: Path) -> None:
    """Plot accuracy against confidence: a point for each bin that is not empty, below it the share of tokens."""
    figure = Figure(figsize=(5.4, 6.2), layout="constrained")
    axes, shares = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="confidence = accuracy")
    for number, (name, each) in enumerate(measured.items()):
        accuracy, confidence, size = (values.numpy() for values in each.bins())
        there, numbers = size > 0, each.summary()
        label = f"{name}: ECE {numbers['ece']:.3f}, OE {numbers['oe']:.3f}"
        axes.plot(confidence[there], accuracy[there], marker="o", markersize=4, color=f"C{number}", label=label)
        edges = np.linspace(0, 1, len(size) + 1)
        shares.stairs(size / size.sum(), edges, color=f"C{number}", fill=number == 0, alpha=0.6)
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", title="Reliability of token predictions")
    axes.legend(fontsize="small")
    shares.set(xlabel="confidence", ylabel="share of tokens", ylim=(0, None))
    figure.savefig(path, dpi=_DPI)


def draw_entropy_cdf(measured: Mapping[str, Calibration], path: Path) -> None:
    """Plot the share of tokens whose predictive distribution has at most an entropy."""
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.subplots()
    at = np.linspace(0, max(each.predictions.entropy.max().item() for each in measured.values()), _POINTS)
    for name, each in measured.items():
        axes.plot(at, each.cdf(at), label=name)
    axes.set(xlim=(0, None), ylim=(0, 1.02), xlabel="entropy of the predictive distribution (nats)")
    axes.set(ylabel="share of tokens up to this entropy", title="Cumulative distribution of entropy")
    axes.legend(fontsize="small", loc="lower right")
    figure.savefig(path, dpi=_DPI)
