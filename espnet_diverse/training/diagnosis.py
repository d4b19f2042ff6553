"""Warnings about attention that does not learn as intended, from the training statistics of an epoch."""

from collections.abc import Collection, Mapping

from torch import nn

from espnet_diverse.attention import AuxiliaryLoss, Core, Diagnosis
from espnet_diverse.attention.disagreement import Disagreement
from espnet_diverse.nets.memory import Memory

Part = type[Core] | type[Memory]
"""Class of a part of a net that declares its auxiliary losses and diagnoses."""


def cores_of(model: nn.Module) -> list[Part]:
    """Return the classes of the cores and memories of a model, in the order of its modules."""
    return list(dict.fromkeys(type(module) for module in model.modules() if isinstance(module, Core | Memory)))


def findings(stats: Mapping[str, float], cores: Collection[Part]) -> list[str]:
    """Return one sentence for each problem in the training statistics of an epoch.

    Reported are statistics that the cores and memories declare in `DIAGNOSES`, from their thresholds on, and the
    auxiliary loss with the largest gradient if that is larger than the gradient of the task's loss.

    Args:
        stats: Means over the epoch of the statistics that `Diverse.forward` returns.
        cores: Classes of the cores and memories of the model.
    """
    reported = [each for each in _diagnoses(cores) if each.statistic in stats]
    reached = [each for each in reported if stats[each.statistic] >= each.threshold]
    return [each.sentence(stats[each.statistic]) for each in reached] + _outweighing(stats, cores)


def _diagnoses(cores: Collection[Part]) -> list[Diagnosis]:
    """Return the diagnoses of the cores, one for each statistic."""
    return list({each.statistic: each for core in cores for each in core.DIAGNOSES}.values())


def _outweighing(stats: Mapping[str, float], cores: Collection[Part]) -> list[str]:
    known: dict[str, AuxiliaryLoss] = dict(Disagreement.LOSSES)
    for core in cores:
        known |= core.LOSSES
    ratios = {name.removeprefix("gradient_"): value for name, value in stats.items() if name.startswith("gradient_")}
    strongest = max(ratios, key=ratios.get, default=None)
    if strongest is None or not ratios[strongest] > 1:
        return []
    weight = known[strongest].weight if strongest in known else "its weight"
    return [
        f"the gradient of the auxiliary loss {strongest} is {ratios[strongest]:.3g} times that of the task's loss; "
        f"lower {weight} or auxiliary_factor"
    ]
