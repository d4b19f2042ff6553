"""Usage of the clusters of a model over a data set.

Clustered positions are the inputs of an attention, which are encoder frames or tokens, or its queries. Two perplexities
show whether a mixture works. The perplexity of the mean usage is the number of clusters that are used: 1 if all
positions are in one cluster, C if all clusters are used equally. The perplexity of a position's posterior, exp of the
mean entropy, shows how sharp the assignment is: 1 if each position has one cluster, C if the posteriors are uniform.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.attention.mixtures.cluster_usage import COLLAPSED, UNIFORM

HEADER = ("what is clustered", "C", "clusters used", "clusters a position", "collapsed", "uniform")
TERMS = (
    (
        "clusters used",
        "Perplexity of the mean usage: 1 where all positions (frames, tokens or queries) fall into one cluster, C "
        f"where all clusters are used alike. A mixture is called collapsed below {COLLAPSED:g}.",
    ),
    (
        "clusters a position",
        "Perplexity of a position's own posterior: 1 where each position has one cluster, C where the mixture does "
        f"not distinguish positions. A mixture is called uniform from {UNIFORM:g} C on.",
    ),
)


@dataclass
class ClusterUse:
    """Sums over utterances for one kind of attention: N layers of H heads with C clusters."""

    posterior_sum: NDArray | float = 0.0  # (N, H, C)
    entropy_sum: NDArray | float = 0.0  # (N, H), in nats
    positions: int = 0

    def add(self, p: Tensor) -> None:
        """Add the cluster probabilities of one utterance, (N, H, T, C)."""
        p = p.double()
        self.posterior_sum = self.posterior_sum + p.sum(-2).numpy()
        self.entropy_sum = self.entropy_sum + torch.special.entr(p).sum((-2, -1)).numpy()
        self.positions += p.size(-2)

    def usage(self) -> NDArray:
        """Return the share of positions in each cluster, (N, H, C)."""
        return self.posterior_sum / self.positions

    def usage_perplexity(self) -> NDArray:
        """Return the perplexity of `usage`, (N, H), from 1 to C."""
        return torch.special.entr(torch.from_numpy(self.usage())).sum(-1).exp().numpy()

    def own_perplexity(self) -> NDArray:
        """Return exp of the mean entropy of a position's posterior, (N, H), from 1 to `usage_perplexity`."""
        return np.exp(self.entropy_sum / self.positions)

    def collapsed(self) -> NDArray:
        """Return which heads use, in effect, only one of several clusters, (N, H) bool."""
        return (self.usage_perplexity() < COLLAPSED) & (self.usage().shape[-1] > 1)

    def uniform(self) -> NDArray:
        """Return which heads have uniform posteriors, (N, H) bool."""
        clusters = self.usage().shape[-1]
        return (self.own_perplexity() >= UNIFORM * clusters) & (clusters > 1)


def title(kind: str, clustered: str) -> str:
    """Return a title, for example "decoder cross-attention: frames"."""
    return f"{KINDS[kind]}: {clustered}"


def rows(uses: Mapping[tuple[str, str], ClusterUse]) -> list[tuple[str, ...]]:
    """Return the cells of the table under `HEADER`: ranges over layers and heads, and numbers of heads."""
    return [
        (
            title(*side),
            str(use.usage().shape[-1]),
            _range(use.usage_perplexity()),
            _range(use.own_perplexity()),
            *(f"{heads.sum()} of {heads.size}" for heads in (use.collapsed(), use.uniform())),
        )
        for side, use in uses.items()
    ]


def _range(values: NDArray) -> str:
    return f"{values.min():.2f} – {values.max():.2f}"


def summary(uses: Mapping[tuple[str, str], ClusterUse]) -> dict[str, dict]:
    """Return the perplexities by layer and head, for JSON."""
    return {
        title(*side): {
            "clusters": use.usage().shape[-1],
            "positions": use.positions,
            "usage_perplexity": use.usage_perplexity().tolist(),
            "own_perplexity": use.own_perplexity().tolist(),
        }
        for side, use in uses.items()
    }
