"""Learning curves: a plot of losses, accuracies and the learning rate over the epochs of a run."""

from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.data.files.atomic_files import save_figure
from espnet_diverse.runs import checkpoint

NAME = "learning_curves.png"
_PANELS = {  # title: statistic that is drawn, and its unit
    "loss": ("loss", "loss"),
    "task": ("loss_task", "loss of the task"),
    "accuracy": ("acc", "share of tokens"),
    "CER of CTC": ("cer_ctc", "character error rate"),
    "learning rate": ("optim0_lr0", "learning rate"),
}
_PHASES = {"train": "training", "valid": "validation"}


def draw_curves(run: Path) -> None:
    """Draw the statistics of the finished epochs in checkpoint.pth of a run to `learning_curves.png` beside it."""
    from matplotlib.figure import Figure

    stats = checkpoint.load_run(run)[0]["reporter"]["stats"]
    panels = {title: named for title, named in _PANELS.items() if _curves(stats, named[0])}
    figure = Figure(figsize=(3.6 * len(panels), 3.2), layout="constrained")
    figure.suptitle(run.resolve().name)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, (statistic, unit)) in zip(grid, panels.items(), strict=True):
        curves = _curves(stats, statistic)
        for phase, points in curves.items():
            axes.plot(points.keys(), points.values(), label=_PHASES[phase], marker="." if len(points) < 30 else "")
        axes.set(title=title, xlabel="epoch", ylabel=unit)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        if len(curves) > 1:
            axes.legend()
    save_figure(figure, run / NAME)


def _curves(stats: Mapping[int, Mapping], statistic: str) -> dict[str, dict[int, float]]:
    """Values of a statistic by phase and epoch, where there are any."""
    found: dict[str, dict[int, float]] = {}
    for epoch, both in stats.items():
        for phase in _PHASES:
            if statistic in both.get(phase, {}):
                found.setdefault(phase, {})[epoch] = float(both[phase][statistic])
    return found
