"""Whether clusters are used at all: statistics of posteriors, logged with every training step."""

import torch
from torch import Tensor

#: A head collapsed if all its tokens fall into fewer clusters than this, as the perplexity of their mean posterior.
COLLAPSED = 1.5
#: A head tells no tokens apart if the perplexity of their own posteriors is this share of the number of clusters.
UNIFORM = 0.99


def cluster_usage(p: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
    """Statistics of posteriors p (B, H, T, C), of valid tokens (B, 1, T) alone; None: all are.

    Returns:
        clusters: Perplexity of the mean posterior, mean over heads: between 1 (collapsed) and C (all used alike).
        collapsed: Share of heads of which it is below `COLLAPSED`.
        uniform: Share of heads whose tokens are of all clusters alike: exp of the mean entropy of their own posteriors
            is at least `UNIFORM` C.
    """
    p = p.detach().float()
    weight = p.new_ones(p.size(-2)) if valid is None else valid.to(p.dtype)
    weight = weight.expand(len(p), 1, -1).unsqueeze(-1)  # (B, 1, T, 1)
    weight = weight / weight.sum().clamp(min=1)
    usage, own = (torch.stack([p, torch.special.entr(p)]) * weight).sum((1, 3))  # (H, C)
    usage, own = torch.special.entr(usage).sum(-1).exp(), own.sum(-1).exp()  # (H,)
    return {
        "clusters": usage.mean(),
        "collapsed": (usage < COLLAPSED).float().mean(),
        "uniform": (own >= UNIFORM * p.size(-1)).float().mean(),
    }
