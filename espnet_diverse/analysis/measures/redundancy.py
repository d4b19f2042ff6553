"""Similarity of the heads of a model over a data set, and the entropy of their weights.

LR and HR are the layer and head redundancy of section IV-A of the SDMA paper. LR is given in bits, as in the paper's
formula, and divided by log2 H, as in its tables. The distance is Dist of the repulsive-attention paper: the mean
Euclidean distance of the outputs of two heads, here at the same position. The entropy of the weights of a query is
averaged over queries and heads. All measures are computed for each utterance and averaged over the utterances of a data
set, as in the code released with the SDMA paper.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.analysis.rounding import certain
from espnet_diverse.functional.redundancy import head_redundancy_matrix, layer_redundancy, pairwise_distance
from espnet_diverse.scoring.table import markdown_table

HEADER = ("attention", "layers", "heads", "LR (bits)", "LR / log2 H", "HR", "distance", "entropy (nats)")
TERMS = (
    (
        "LR, layer redundancy",
        "How alike the heads of one layer are: log2 H minus the Jensen-Shannon divergence of their attention weights, "
        "mean over layers and queries. 0: heads look at different places; log2 H bits, or 1 after division by log2 H: "
        "all look at the same. Published tables give the divided form.",
    ),
    (
        "HR, head redundancy",
        "How alike any two heads of the model are: 1 minus their Jensen-Shannon divergence in bits, mean over all "
        "pairs, each head with itself included. It lies between 1 / (layers × heads) and 1.",
    ),
    (
        "distance",
        "Mean Euclidean distance of the outputs of two heads of a layer at the same position, before the output "
        "projection. The larger, the more the heads differ; compare it only between models of one width.",
    ),
    (
        "entropy",
        "How widely a query attends, in nats: 0 where it looks at one position, log T where at all T alike. Mean over "
        "queries, heads and layers.",
    ),
)
_MEASURES = ("lr_bits", "lr_normalised", "hr", "distance", "entropy")


@dataclass
class Redundancy:
    """Redundancy of one kind of attention, N layers of H heads, over utterances.

    Attributes:
        layers: LR in bits of each layer, (N,), for each utterance.
        pairs: 1 - JS of every two heads, (N H, N H), summed over utterances.
        heads: HR of each utterance.
        distances: Distance of the outputs of two heads for each utterance; not a number if there is only one head.
        entropies: Entropy of the weights in nats for each utterance.
        shape: N and H.
    """

    layers: list[NDArray] = field(default_factory=list)
    pairs: NDArray | float = 0.0
    heads: list[float] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    shape: tuple[int, int] = (0, 0)

    def add(self, weights: Tensor, outputs: Tensor) -> None:
        """Add the attention weights (N, H, Tq, Tk) and the outputs of the heads (N, H, Tq, D) of one utterance."""
        weights = weights.double()
        self.shape = (weights.size(0), weights.size(1))
        self.layers.append(torch.stack([layer_redundancy(layer[None]) for layer in weights]).numpy())
        pairs = head_redundancy_matrix(weights).numpy()
        self.pairs = self.pairs + pairs
        self.heads.append(float(pairs.mean()))
        apart = pairwise_distance(outputs.double().transpose(1, 2)) if self.shape[1] > 1 else math.nan
        self.distances.append(float(apart))
        self.entropies.append(float(torch.special.entr(weights).sum(-1).mean()))

    def lr_by_layer(self) -> NDArray:
        """Return LR of each layer in bits, (N,)."""
        return np.mean(self.layers, axis=0)

    def by_utterance(self) -> NDArray:
        """Return LR in bits, LR / log2 H, HR, the distance and the entropy of each utterance, (5, utterances).

        For one head LR / log2 H is not a number.
        """
        lr = np.mean(self.layers, axis=1)
        normalised = lr / math.log2(self.shape[1]) if self.shape[1] > 1 else np.full_like(lr, math.nan)
        return np.stack([lr, normalised, self.heads, self.distances, self.entropies])

    def measures(self) -> tuple[float, ...]:
        """Return LR in bits, LR / log2 H, HR, the distance and the entropy."""
        return tuple(self.by_utterance().mean(1).tolist())

    def matrix(self) -> NDArray:
        """Return 1 - JS of every two heads, (N H, N H), mean over utterances."""
        return self.pairs / len(self.heads)


def rows(kinds: Mapping[str, Redundancy]) -> list[tuple[str, ...]]:
    """Return the cells of the table under `HEADER`: a row for each kind of attention, then their mean.

    Numbers have their 95 % intervals over utterances.
    """
    values = [stats.by_utterance() for stats in kinds.values()]
    table = [
        (KINDS[kind], *map(str, stats.shape), *map(certain, value))
        for (kind, stats), value in zip(kinds.items(), values, strict=True)
    ]
    return [*table, ("mean", "", "", *map(certain, np.mean(values, axis=0)))]


def markdown(kinds: Mapping[str, Redundancy]) -> str:
    """Return `rows` as a Markdown table that ends with a newline."""
    return markdown_table(HEADER, rows(kinds))


def summary(kinds: Mapping[str, Redundancy]) -> dict[str, dict]:
    """Return the same numbers, and LR by layer, for JSON; None replaces not a number."""
    report = {
        kind: {"layers": stats.shape[0], "heads": stats.shape[1], **dict(zip(_MEASURES, stats.measures(), strict=True))}
        for kind, stats in kinds.items()
    }
    report["mean"] = {name: float(np.mean([values[name] for values in report.values()])) for name in _MEASURES}
    for values in report.values():
        values.update({name: None for name in _MEASURES if math.isnan(values[name])})
    for kind, stats in kinds.items():
        report[kind]["lr_bits_by_layer"] = stats.lr_by_layer().tolist()
    return report
