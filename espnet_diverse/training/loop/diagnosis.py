"""Warnings about attention that does not learn as intended, from the training statistics of an epoch."""

from collections.abc import Collection, Mapping

from torch import nn

from espnet_diverse.attention import Diagnosis, Monitored
from espnet_diverse.nets.gradient_balance import STRONG

Parts = Collection[type[Monitored]]
"""Classes of the parts of a model that declare auxiliary losses and diagnoses."""


def monitored_parts(model: nn.Module) -> Parts:
    """Return the classes of the monitored modules of a model, in the order of its modules."""
    return list(dict.fromkeys(type(module) for module in model.modules() if isinstance(module, Monitored)))


def findings(stats: Mapping[str, float], parts: Parts) -> list[str]:
    """Return one sentence for each problem in the training statistics of an epoch.

    Reported are statistics that the parts of the model declare in `DIAGNOSES`, from their thresholds on, and the
    auxiliary loss that pulls most if its gradient is more than `STRONG` times the task's.

    Args:
        stats: Means over the epoch of the statistics that `Diverse.forward` returns.
        parts: `monitored_parts` of the model.
    """
    reported = [diagnosis for diagnosis in _diagnoses(parts) if diagnosis.statistic in stats]
    reached = [diagnosis for diagnosis in reported if stats[diagnosis.statistic] >= diagnosis.threshold]
    return [diagnosis.sentence(stats[diagnosis.statistic]) for diagnosis in reached] + _outweighing(stats, parts)


def _diagnoses(parts: Parts) -> list[Diagnosis]:
    """Return the diagnoses of the parts, one for each statistic."""
    return list({diagnosis.statistic: diagnosis for part in parts for diagnosis in part.DIAGNOSES}.values())


def _outweighing(stats: Mapping[str, float], parts: Parts) -> list[str]:
    known = {name: loss for part in parts for name, loss in part.LOSSES.items()}
    ratios = {name.removeprefix("gradient_"): value for name, value in stats.items() if name.startswith("gradient_")}
    strongest = max(ratios, key=ratios.get, default=None)
    if strongest is None or not ratios[strongest] > STRONG:
        return []
    weight = known[strongest].weight if strongest in known else "its weight"
    return [
        f"the gradient of the auxiliary loss {strongest} is {ratios[strongest]:.3g} times the task's "
        f"where it is strongest; lower {weight} or auxiliary_factor"
    ]
