"""Layer and head redundancy of a model over a data set, section IV-A of the SDMA paper.

LR and HR of an utterance are computed by `functional.redundancy`. For a data set they are the mean over its utterances,
as in the released code. LR is given in bits, as in the paper's formula, and divided by log2 H, as in its tables.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.functional.redundancy import head_redundancy_matrix, layer_redundancy

HEADER = ("attention", "layers", "heads", "LR (bits)", "LR / log2 H", "HR")


@dataclass
class Redundancy:
    """Redundancy of one kind of attention, N layers of H heads, over utterances.

    Attributes:
        layers: LR in bits of each layer, (N,), for each utterance.
        pairs: 1 - JS of every two heads, (N H, N H), summed over utterances.
        heads: HR of each utterance.
        shape: N and H.
    """

    layers: list[NDArray] = field(default_factory=list)
    pairs: NDArray | float = 0.0
    heads: list[float] = field(default_factory=list)
    shape: tuple[int, int] = (0, 0)

    def add(self, weights: Tensor) -> None:
        """Add the attention weights of one utterance, (N, H, Tq, Tk)."""
        weights = weights.double()
        self.shape = (weights.size(0), weights.size(1))
        self.layers.append(torch.stack([layer_redundancy(layer[None]) for layer in weights]).numpy())
        pairs = head_redundancy_matrix(weights).numpy()
        self.pairs = self.pairs + pairs
        self.heads.append(float(pairs.mean()))

    def lr_by_layer(self) -> NDArray:
        """Return LR of each layer in bits, (N,)."""
        return np.mean(self.layers, axis=0)

    def lr(self) -> float:
        """Return LR in bits."""
        return float(np.mean(self.layers))

    def lr_normalised(self) -> float:
        """Return LR divided by log2 H; not a number if there is only one head."""
        return self.lr() / math.log2(self.shape[1]) if self.shape[1] > 1 else math.nan

    def hr(self) -> float:
        """Return HR."""
        return float(np.mean(self.heads))

    def matrix(self) -> NDArray:
        """Return 1 - JS of every two heads, (N H, N H), mean over utterances."""
        return self.pairs / len(self.heads)


def rows(kinds: Mapping[str, Redundancy]) -> list[tuple[str, ...]]:
    """Return the cells of the table under `HEADER`: a row for each kind of attention, then their mean."""
    values = [(each.lr(), each.lr_normalised(), each.hr()) for each in kinds.values()]
    table = [
        (KINDS[kind], *map(str, each.shape), *_numbers(value))
        for (kind, each), value in zip(kinds.items(), values, strict=True)
    ]
    return [*table, ("mean", "", "", *_numbers(np.mean(values, axis=0)))]


def _numbers(values: tuple[float, ...]) -> list[str]:
    return ["–" if math.isnan(value) else f"{value:.4f}" for value in values]


def markdown(kinds: Mapping[str, Redundancy]) -> str:
    """Return `rows` as a Markdown table that ends with a newline."""
    lines = [HEADER, ("---",) * len(HEADER), *rows(kinds)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def summary(kinds: Mapping[str, Redundancy]) -> dict[str, dict]:
    """Return the same numbers, and LR by layer, for JSON; None replaces not a number."""
    report = {
        kind: {
            "layers": each.shape[0],
            "heads": each.shape[1],
            "lr_bits": each.lr(),
            "lr_normalised": each.lr_normalised(),
            "hr": each.hr(),
        }
        for kind, each in kinds.items()
    }
    report["mean"] = {
        name: float(np.mean([values[name] for values in report.values()]))
        for name in ("lr_bits", "lr_normalised", "hr")
    }
    for values in report.values():
        if math.isnan(values["lr_normalised"]):
            values["lr_normalised"] = None
    for kind, each in kinds.items():
        report[kind]["lr_bits_by_layer"] = each.lr_by_layer().tolist()
    return report
