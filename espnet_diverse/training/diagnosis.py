"""What the statistics of an epoch tell of an attention that does not learn as it is meant to."""

from collections.abc import Mapping

#: Share of heads, over all modules, from which on clusters that separate nothing are worth a word.
SHARE = 0.25
_MIXTURES = {"z": "tokens", "q": "queries"}
_WEIGHTS = {"kl": "lambda_k", "diversity": "lambda_d", "head_mi": "lambda_q"}
#: (22) lies the logarithm of the sequence length away from the bound (15) that it stands for: a constant without
#: gradient, which makes most of its size and is no weight.
_WITHOUT_SCALE = "query_mi"


def findings(stats: Mapping[str, float]) -> list[str]:
    """One sentence for each thing amiss in the training statistics of an epoch, which are those of `Diverse.forward`.

    Clusters that have collapsed (perplexity of their usage under 1.5) or that tell no tokens apart (posteriors all but
    uniform), and auxiliary losses that outweigh the task's.
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
