"""How the clusters of a model are used over a data set.

Positions are encoder frames or tokens, at the inputs of an attention, or its queries. Two perplexities tell whether a
mixture works. That of the mean usage says how many clusters are used at all: 1 where all positions fall into one
cluster, C where all clusters are used alike. That of a position's own posterior, exp of the mean entropy, says how sure
the assignment is: 1 where each position has one cluster, C where the mixture tells none apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.attention.cluster_usage import COLLAPSED, UNIFORM

HEADER = ("what is clustered", "C", "clusters used", "clusters a position", "collapsed", "uniform")


@dataclass
class ClusterUse:
    """Use of the clusters of one kind of attention, N layers of H heads with C clusters, over the utterances added."""

    posterior_sum: NDArray | float = 0.0  # (N, H, C)
    entropy_sum: NDArray | float = 0.0  # (N, H), in nats
    positions: int = 0

    def add(self, p: Tensor) -> None:
        """Take in the cluster probabilities of one utterance, (N, H, T, C)."""
        p = p.double()
        self.posterior_sum = self.posterior_sum + p.sum(-2).numpy()
        self.entropy_sum = self.entropy_sum + torch.special.entr(p).sum((-2, -1)).numpy()
        self.positions += p.size(-2)

    def usage(self) -> NDArray:
        """Share of the positions that each cluster has, (N, H, C)."""
        return self.posterior_sum / self.positions

    def usage_perplexity(self) -> NDArray:
        """Perplexity of `usage`, (N, H), between 1 and C."""
        return torch.special.entr(torch.from_numpy(self.usage())).sum(-1).exp().numpy()

    def own_perplexity(self) -> NDArray:
        """exp of the mean entropy of a position's posterior, (N, H), between 1 and `usage_perplexity`."""
        return np.exp(self.entropy_sum / self.positions)

    def collapsed(self) -> NDArray:
        """Heads whose positions fall, in effect, into one of several clusters, (N, H) bool."""
        return (self.usage_perplexity() < COLLAPSED) & (self.usage().shape[-1] > 1)

    def uniform(self) -> NDArray:
        """Heads whose mixture tells no position from another, (N, H) bool."""
        clusters = self.usage().shape[-1]
        return (self.own_perplexity() >= UNIFORM * clusters) & (clusters > 1)


def title(kind: str, clustered: str) -> str:
    """For example "decoder cross-attention: frames"."""
    return f"{KINDS[kind]}: {clustered}"


def rows(uses: Mapping[tuple[str, str], ClusterUse]) -> list[tuple[str, ...]]:
    """The cells of the table under `HEADER`: range over layers and heads, and how many heads do not cluster."""
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
    """Perplexities by layer and head, for JSON."""
    return {
        title(*side): {
            "clusters": use.usage().shape[-1],
            "positions": use.positions,
            "usage_perplexity": use.usage_perplexity().tolist(),
            "own_perplexity": use.own_perplexity().tolist(),
        }
        for side, use in uses.items()
    }
