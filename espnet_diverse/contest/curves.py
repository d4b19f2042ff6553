"""Learning curves of the runs of a contest, read from their checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from espnet_diverse.contest.runs import Run

STATISTICS = {"acc": "accuracy of tokens", "loss_task": "loss of the task", "loss": "loss"}
"""Statistics of the validation that are drawn, and their names; of the losses, the first that all runs have, because
the total loss of a method with auxiliary losses cannot be compared to one without."""


@dataclass(frozen=True)
class Curves:
    """The curves of one statistic.

    Attributes:
        title: Its name.
        methods: Values by method and seed, and by epoch.
    """

    title: str
    methods: Mapping[str, Mapping[int, Mapping[int, float]]]


def read_curves(runs: Sequence[Run]) -> list[Curves]:
    """Read the statistics of the validation of the runs, which are finished.

    Raises:
        ModelError: A checkpoint is missing or damaged.
    """
    from espnet_diverse.runs.checkpoint import load_run

    validated = {
        (run.name, run.seed): {
            epoch: phases["valid"] for epoch, phases in load_run(run.folder)[0]["reporter"]["stats"].items()
        }
        for run in runs
    }
    drawn = [name for name in STATISTICS if validated and all(_has(epochs, name) for epochs in validated.values())]
    losses = [name for name in drawn if name.startswith("loss")]
    curves = []
    for name in [statistic for statistic in drawn if statistic not in losses[1:]]:
        methods: dict[str, dict[int, dict[int, float]]] = {}
        for (method, seed), epochs in validated.items():
            methods.setdefault(method, {})[seed] = {epoch: float(values[name]) for epoch, values in epochs.items()}
        curves.append(Curves(STATISTICS[name], methods))
    return curves


def _has(epochs: Mapping[int, Mapping], name: str) -> bool:
    return bool(epochs) and all(name in values for values in epochs.values())
