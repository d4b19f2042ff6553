"""Mean distance between a query and the positions that its weights fall on, in self-attention.

The mean attention distance of a head, Dosovitskiy et al. 2021, "An image is worth 16x16 words" (Fig. 7), is

    sum_j a_ij |i - j|      mean over queries i, and over the utterances of a data set

in frames after subsampling or in tokens. It is computed for attention weights and for other matrices of a core whose
rows sum to 1, such as semantic masks. Cross-attention has no such distance, because its queries and keys are positions
of two sequences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS

SELF_ATTENTION = ("encoder", "decoder")
"""Kinds of attention that have distances, keys of `collect.KINDS`."""


@dataclass
class AttentionDistance:
    """Distances of one matrix of one kind of attention, N layers of H heads.

    Attributes:
        utterances: Distance of each head, (N, H), for each utterance.
    """

    utterances: list[NDArray] = field(default_factory=list)

    def add(self, weights: Tensor) -> None:
        """Add the weights of one utterance, (N, H, T, T)."""
        positions = torch.arange(weights.size(-1), dtype=torch.double)
        apart = (positions[:, None] - positions).abs()
        self.utterances.append((weights.double() * apart).sum(-1).mean(-1).numpy())

    def by_head(self) -> NDArray:
        """Return the mean distance of each head, (N, H)."""
        return np.mean(self.utterances, axis=0)


Measured = Mapping[tuple[str, str], AttentionDistance]
"""Distances by kind of attention, a key of `collect.KINDS`, and by the name of the matrix."""


def rows(measured: Measured) -> list[tuple[str, ...]]:
    """Return a row of cells for each matrix: its name, and the mean over heads for each layer."""
    return [
        (f"{KINDS[kind]}: {name}", *(f"{layer:.2f}" for layer in distance.by_head().mean(1)))
        for (kind, name), distance in measured.items()
    ]


def summary(measured: Measured) -> dict[str, list[list[float]]]:
    """Return the distance by layer and head of each matrix, for JSON."""
    return {f"{KINDS[kind]}: {name}": distance.by_head().tolist() for (kind, name), distance in measured.items()}
