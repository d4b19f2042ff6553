"""Warnings about attention that does not learn as intended, from the training statistics of an epoch."""

from collections.abc import Collection, Mapping

from torch import nn

from espnet_diverse.attention import AuxiliaryLoss, Core, Diagnosis


def cores_of(model: nn.Module) -> list[type[Core]]:
    """Return the classes of the cores of a model, in the order of its modules."""
    return list(dict.fromkeys(type(module) for module in model.modules() if isinstance(module, Core)))


def findings(stats: Mapping[str, float], cores: Collection[type[Core]]) -> list[str]:
    """Return one sentence for each problem in the training statistics of an epoch.

    Reported are statistics that the cores declare in `DIAGNOSES`, from their thresholds on, and auxiliary losses that
    together exceed the loss of the task.

    Args:
        stats: Means over the epoch of the statistics that `Diverse.forward` returns.
        cores: Classes of the cores of the model.
    """
    reported = [each for each in _diagnoses(cores) if each.statistic in stats]
    reached = [each for each in reported if stats[each.statistic] >= each.threshold]
    return [each.sentence(stats[each.statistic]) for each in reached] + _exceeding(stats, cores)


def _diagnoses(cores: Collection[type[Core]]) -> list[Diagnosis]:
    """Return the diagnoses of the cores, one for each statistic."""
    return list({each.statistic: each for core in cores for each in core.DIAGNOSES}.values())


def _exceeding(stats: Mapping[str, float], cores: Collection[type[Core]]) -> list[str]:
    known: dict[str, AuxiliaryLoss] = {}
    for core in cores:
        known |= core.LOSSES
    auxiliary = {name.removeprefix("aux_"): value for name, value in stats.items() if name.startswith("aux_")}
    auxiliary = {name: value for name, value in auxiliary.items() if name not in known or known[name].comparable}
    total, task = sum(auxiliary.values()), stats.get("loss_task", 0.0)
    if not auxiliary or not total > task:
        return []
    largest = max(auxiliary, key=auxiliary.get)
    weight = known[largest].weight if largest in known else "its weight"
    return [
        f"the auxiliary losses ({total:.4g}) outweigh the task's ({task:.4g}), above all {largest} "
        f"({auxiliary[largest]:.4g}); lower {weight}"
    ]
