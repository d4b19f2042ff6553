"""Whether the statistics by which epochs are chosen, or training ends early, are those of an epoch."""

from collections.abc import Mapping, Sequence

from espnet_diverse.errors import TrainingError


def check_criteria(
    stats: Mapping[str, Mapping[str, float]], best: Sequence[Sequence[str]], stopping: Sequence[str] | None = None
) -> None:
    """Check that at least one criterion can choose the best epochs, without which no weights would be averaged.

    Args:
        stats: Statistics of an epoch by phase ("train", "valid") and name.
        best: `best_model_criterion`: phase, name and mode of each; those of ESPnet's defaults may be missing.
        stopping: `early_stopping_criterion`, if training may end early.

    Raises:
        TrainingError: None of `best`, or not `stopping`, is among the statistics.
    """

    def known(criterion: Sequence[str]) -> bool:
        return criterion[1] in stats.get(criterion[0], {})

    for option, criteria in (
        ("best_model_criterion", best),
        ("early_stopping_criterion", [stopping] if stopping else []),
    ):
        if criteria and not any(map(known, criteria)):
            named = " ".join(f"{criterion[0]}.{criterion[1]}" for criterion in criteria)
            there = " ".join(f"{phase}.{name}" for phase in sorted(stats, reverse=True) for name in stats[phase])
            raise TrainingError(f"{option}: an epoch has no {named}; it has {there}")
