"""Statistics of the posteriors of a mixture, logged in training: the number of clusters in use."""

import torch
from torch import Tensor

from espnet_diverse.attention.inspection import Diagnosis

#: A head has collapsed if the perplexity of its mean posterior is below this: in effect all tokens are in one cluster.
COLLAPSED = 1.5
#: A head is uniform if the perplexity of the tokens' own posteriors is at least this share of the number of clusters.
UNIFORM = 0.99
#: Share of heads, over all modules, from which collapsed or uniform heads are reported.
SHARE = 0.25


def cluster_usage(p: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
    """Compute statistics of posteriors.

    Args:
        p: Posteriors (B, H, T, C).
        valid: Which tokens are no padding, (B, 1, T); None if all are valid.

    Returns:
        clusters: Perplexity of the mean posterior, mean over heads: from 1 (collapsed) to C (all clusters are used
            equally).
        collapsed: Share of heads for which that perplexity is below `COLLAPSED`.
        uniform: Share of heads whose tokens belong to all clusters equally: exp of the mean entropy of their posteriors
            is at least `UNIFORM` C.
    """
    p = p.detach().float()
    weight = p.new_ones(p.size(-2)) if valid is None else valid.to(p.dtype)
    weight = weight.expand(len(p), 1, -1).unsqueeze(-1)  # (B, 1, T, 1)
    weight = weight / weight.sum().clamp(min=1)
    usage, token_usage = (torch.stack([p, torch.special.entr(p)]) * weight).sum((1, 3))  # (H, C)
    usage, token_usage = torch.special.entr(usage).sum(-1).exp(), token_usage.sum(-1).exp()  # (H,)
    return {
        "clusters": usage.mean(),
        "collapsed": (usage < COLLAPSED).float().mean(),
        "uniform": (token_usage >= UNIFORM * p.size(-1)).float().mean(),
    }


def cluster_diagnoses(suffix: str, clustered: str) -> tuple[Diagnosis, Diagnosis]:
    """Return what high values of the statistics `collapsed_<suffix>` and `uniform_<suffix>` mean.

    Args:
        suffix: Name of the mixture in the names of its statistics.
        clustered: What the mixture clusters, in the plural, for the message.
    """
    return (
        Diagnosis(
            f"collapsed_{suffix}",
            SHARE,
            f"in {{value:.0%}} of the heads all {clustered} fall into one cluster (usage perplexity under {COLLAPSED})",
            "raise lambda_d or take fewer clusters",
        ),
        Diagnosis(
            f"uniform_{suffix}",
            SHARE,
            f"in {{value:.0%}} of the heads the clusters tell no {clustered} apart (posteriors are uniform)",
            "try dv_form: balanced, or raise centroid_learning_rate_scale",
        ),
    )
