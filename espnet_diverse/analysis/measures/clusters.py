"""Usage of the clusters of a model over a data set, and the tokens that each cluster has.

Clustered positions are the inputs of an attention, which are encoder frames or tokens, or its queries. Two perplexities
show whether a mixture works. The perplexity of the mean usage is the number of clusters that are used: 1 if all
positions are in one cluster, C if all clusters are used equally. The perplexity of a position's posterior, exp of the
mean entropy, shows how sharp the assignment is: 1 if each position has one cluster, C if the posteriors are uniform.

Where tokens are clustered, the tokens of cluster c are those with the largest n(w) p(c | w) log(p(c | w) / p(c)), their
parts of the mutual information of tokens and clusters: p(c | w) is the mean posterior of the n(w) positions of token w,
and p(c) the usage of the cluster.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.attention.mixtures.cluster_usage import COLLAPSED, UNIFORM

HEADER = ("what is clustered", "C", "clusters used", "clusters a position", "collapsed", "uniform")
TOPICS = ("what is clustered", "head", "cluster", "its tokens")
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
    token_sums: dict[str, NDArray] = field(default_factory=dict)  # (N, H, C) by token
    token_counts: Counter[str] = field(default_factory=Counter)

    def add(self, p: Tensor, tokens: Sequence[str] = ()) -> None:
        """Add the cluster probabilities of one utterance, (N, H, T, C), and its T tokens, if tokens are clustered."""
        p = p.double()
        for place, token in enumerate(tokens):
            self.token_sums[token] = self.token_sums.get(token, 0.0) + p[..., place, :].numpy()
        self.token_counts.update(tokens)
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

    def topics(self, most: int = 8) -> list[list[list[list[str]]]]:
        """Return the tokens of each cluster by layer, head and cluster, those that say most about it first."""
        if not self.token_sums:
            return []
        names, usage = list(self.token_sums), self.usage()
        sums, counts = np.stack(list(self.token_sums.values())), np.array([self.token_counts[name] for name in names])
        shares = sums / counts.reshape(-1, 1, 1, 1)
        excess = sums * np.log(np.maximum(shares, 1e-300) / np.maximum(usage, 1e-300))  # (tokens, N, H, C)
        best = np.argsort(-excess, axis=0, kind="stable")[:most]

        def of(*place: int) -> list[str]:
            return [names[token] for token in best[:, *place] if excess[token, *place] > 0]

        layers, heads, clusters = usage.shape
        return [[[of(n, h, c) for c in range(clusters)] for h in range(heads)] for n in range(layers)]

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


def topic_rows(uses: Mapping[tuple[str, str], ClusterUse]) -> list[tuple[str, ...]]:
    """Return the cells of the table under `TOPICS`: the tokens of the clusters of the last layers."""
    return [
        (title(*side), f"{number}.{head}", str(cluster), " ".join(tokens))
        for side, use in uses.items()
        for number, layer in list(enumerate(use.topics(), 1))[-1:]
        for head, clusters in enumerate(layer, 1)
        for cluster, tokens in enumerate(clusters, 1)
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
            **({"topics": use.topics()} if use.token_sums else {}),
        }
        for side, use in uses.items()
    }
