"""Detecting in the statistics of an epoch that an attention does not learn as intended."""

from collections.abc import Mapping

#: Warn about clusters that separate nothing if they occur in at least this share of the heads of all modules.
SHARE = 0.25
_MIXTURES = {"z": "tokens", "q": "queries"}
_WEIGHTS = {"kl": "lambda_k", "diversity": "lambda_d", "head_mi": "lambda_q"}
#: (22) differs from the bound (15) that it estimates by the logarithm of the sequence length, a constant without
#: gradient that makes up most of its value; its size says nothing about its weight.
_WITHOUT_SCALE = "query_mi"


def findings(stats: Mapping[str, float]) -> list[str]:
    """One sentence for each problem in the training statistics of an epoch, which are those of `Diverse.forward`.

    Problems are clusters that have collapsed (perplexity of their usage under 1.5), clusters that do not distinguish
    tokens (nearly uniform posteriors), and auxiliary losses that are larger than the loss of the task.
    """
    found = []
    for suffix, clustered in _MIXTURES.items():
        if (share := stats.get(f"collapsed_{suffix}", 0.0)) >= SHARE:
            found.append(
                f"in {share:.0%} of the heads all {clustered} fall into one cluster (usage perplexity under 1.5); "
                "raise lambda_d or take fewer clusters"
            )
        if (share := stats.get(f"uniform_{suffix}", 0.0)) >= SHARE:
            found.append(
                f"in {share:.0%} of the heads the clusters tell no {clustered} apart (posteriors are uniform); "
                "try dv_form: balanced, or raise centroid_learning_rate_scale"
            )
    return found + _outweighing(stats)


def _outweighing(stats: Mapping[str, float]) -> list[str]:
    auxiliary = {name.removeprefix("aux_"): value for name, value in stats.items() if name.startswith("aux_")}
    auxiliary.pop(_WITHOUT_SCALE, None)
    total, task = sum(auxiliary.values()), stats.get("loss_task", 0.0)
    if not auxiliary or not total > task:
        return []
    largest = max(auxiliary, key=auxiliary.get)
    weight = next((option for prefix, option in _WEIGHTS.items() if largest.startswith(prefix)), "its weight")
    return [
        f"the auxiliary losses ({total:.4g}) outweigh the task's ({task:.4g}), above all {largest} "
        f"({auxiliary[largest]:.4g}); lower {weight}"
    ]
