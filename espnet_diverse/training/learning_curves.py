"""Learning curves: a plot of losses, accuracies, gradients and the learning rate over the epochs of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.pictures import save_figure
from espnet_diverse.runs import checkpoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "learning_curves.png"
_PANELS = {  # title: statistic that is drawn, and its unit
    "loss": ("loss", "loss"),
    "task": ("loss_task", "loss of the task"),
    "accuracy": ("acc", "share of tokens"),
    "CER of CTC": ("cer_ctc", "character error rate"),
    "gradients": ("grad_norm", "norm, before it is clipped"),
    "learning rate": ("optim0_lr0", "learning rate"),
}
_OWN, _ATTENTION = "aux_", "losses of the attention"
_PHASES = {"train": "training", "valid": "validation"}
_COLUMNS = 3
_SMALL = 1e-3  # losses below it are on a linear scale


def draw_curves(run: Path) -> None:
    """Draw the statistics of the finished epochs in checkpoint.pth of a run to `learning_curves.png` next to it.

    A dashed line marks the epoch of the greatest accuracy in validation, or else of the smallest loss.
    """
    from matplotlib.figure import Figure

    stats = checkpoint.load_run(run)[0]["reporter"]["stats"]
    panels = {title: named for title, named in _PANELS.items() if _curves(stats, named[0])}
    losses = sorted({name for both in stats.values() for name in both.get("valid", {}) if name.startswith(_OWN)})
    titles, best = [*panels, *([_ATTENTION] if losses else [])], _best(stats)
    rows = -(-len(titles) // _COLUMNS)
    figure = Figure(figsize=(3.8 * min(_COLUMNS, len(titles)), 0.4 + 3 * rows), layout="constrained")
    figure.suptitle(run.resolve().name + (f"; best in validation: epoch {best}" if best is not None else ""))
    for number, title in enumerate(titles, 1):
        axes = figure.add_subplot(rows, min(_COLUMNS, len(titles)), number)
        if title == _ATTENTION:
            curves = {name.removeprefix(_OWN): _curves(stats, name).get("valid", {}) for name in losses}
            axes.set_yscale("symlog", linthresh=_SMALL)
            axes.set_ylabel("validation, as added to the loss")
        else:
            curves = {_PHASES[phase]: points for phase, points in _curves(stats, panels[title][0]).items()}
            axes.set_ylabel(panels[title][1])
        _draw(axes, title, curves, best)
    save_figure(figure, run / NAME)


def _draw(axes: "Axes", title: str, curves: Mapping[str, Mapping[int, float]], best: int | None) -> None:
    for name, points in curves.items():
        axes.plot(points.keys(), points.values(), label=name, marker="." if len(points) < 30 else "")
    if best is not None:
        axes.axvline(best, color="grey", linestyle="--", linewidth=1)
    axes.set(title=title, xlabel="epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    if len(curves) > 1 or title == _ATTENTION:
        axes.legend(fontsize="small")


def _best(stats: Mapping[int, Mapping]) -> int | None:
    """The epoch of the best validation; None where there is none."""
    accuracy, loss = (_curves(stats, name).get("valid", {}) for name in ("acc", "loss"))
    if accuracy:
        return max(accuracy, key=accuracy.__getitem__)
    return min(loss, key=loss.__getitem__, default=None)


def _curves(stats: Mapping[int, Mapping], statistic: str) -> dict[str, dict[int, float]]:
    """Values of a statistic by phase and epoch, where there are any."""
    curves: dict[str, dict[int, float]] = {}
    for epoch, both in stats.items():
        for phase in _PHASES:
            if statistic in both.get(phase, {}):
                curves.setdefault(phase, {})[epoch] = float(both[phase][statistic])
    return curves
