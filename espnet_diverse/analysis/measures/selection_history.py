"""Head selection over training: gap of the logits, heads changed by the noise, movement of the logits.

The numbers are the means over each epoch that ESPnet's reporter keeps in checkpoint.pth, so they cover a resumed run
too. TensorBoard and train.log have values within an epoch, under the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from espnet_diverse.pictures import save_figure
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import load

_LABELS = {
    "logit_gap": "gap of the logits:\nselected − best other head",
    "heads_by_noise": "selected heads\nthat the noise changed (%)",
    "logit_movement": "mean distance of the\nlogits from their start",
}
_FACTORS = {"heads_by_noise": 100}


@dataclass(frozen=True)
class History:
    """Statistics of head selection by epoch.

    Attributes:
        updates: Number of optimizer updates in the middle of each of E epochs, (E,).
        values: Means over each epoch (E,) by the name of the statistic; NaN if an epoch lacks it.
    """

    updates: NDArray
    values: Mapping[str, NDArray]


def read_history(run: Path) -> History | None:
    """Read the statistics of a run, or None if it has no head selection or no checkpoint.pth with statistics.

    Raises:
        ModelError: checkpoint.pth or config.yaml is damaged, or config.yaml is missing.
    """
    if not (run / checkpoint.CHECKPOINT).exists():
        return None
    stats = checkpoint.load_run(run)[0].get("reporter", {"stats": {}})["stats"]
    trained = [phases.get("train", {}) for _, phases in sorted(stats.items())]
    epochs = [epoch for epoch in trained if "total_count" in epoch]  # not one that was only validated
    names = [name for name in _LABELS if any(name in epoch for epoch in epochs)]
    if not names:
        return None
    batches = np.diff([0, *(epoch["total_count"] for epoch in epochs)])
    updates = batches // load(run / "config.yaml").get("accum_grad", 1)  # left-over batches make no update
    values = {name: np.array([epoch.get(name, np.nan) for epoch in epochs]) for name in names}
    return History(np.cumsum(updates) - updates / 2, values)


def draw_history(history: History, title: str, path: Path) -> None:
    """Write a PNG with a panel for each statistic, one below the other."""
    figure = Figure(figsize=(7, 0.8 + 2 * len(history.values)), layout="constrained")
    panels = figure.subplots(len(history.values), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(panels, history.values.items(), strict=True):
        axes.plot(history.updates, values * _FACTORS.get(name, 1), marker=".")
        axes.set_ylim(bottom=0)
        axes.set_ylabel(_LABELS[name])
        axes.grid(alpha=0.3)
    panels[-1].set_xlim(left=0)
    panels[-1].set_xlabel("optimizer updates (a point is the mean over an epoch, at its middle)")
    figure.suptitle(f"{title}: head selection in training")
    save_figure(figure, path)
