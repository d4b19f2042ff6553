"""Reach of the heads of self-attention: the share of their weight on the positions around a query.

    share(w) = 1/T sum_i sum_{|i - j| <= w} a_ij      mean over the utterances of a data set

A window of w positions on each side cuts off the rest of the weight, 1 - share(w).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass
class Reach:
    """Shares of the weight of N layers of H heads.

    Attributes:
        utterances: For each utterance the share of each head at each width from 0 on, (N, H, T).
    """

    utterances: list[NDArray] = field(default_factory=list)

    def add(self, weights: Tensor) -> None:
        """Add the weights of one utterance, (N, H, T, T)."""
        time = weights.size(-1)
        position = torch.arange(time, device=weights.device)
        distance = (position.unsqueeze(-1) - position).abs().flatten()
        by_distance = weights.new_zeros(*weights.shape[:2], time, dtype=torch.double)
        by_distance.index_add_(2, distance, weights.flatten(2).double() / time)
        self.utterances.append(by_distance.cumsum(-1).cpu().numpy())

    def lengths(self) -> list[int]:
        """Return the number of positions T of each utterance."""
        return [shares.shape[-1] for shares in self.utterances]

    def by_head(self, widths: Sequence[int]) -> NDArray:
        """Return the mean share of each head at each of W widths, (N, H, W)."""
        chosen = ([min(width, shares.shape[-1] - 1) for width in widths] for shares in self.utterances)
        return np.mean([shares[..., at] for shares, at in zip(self.utterances, chosen, strict=True)], axis=0)

    def narrowest(self, widths: Sequence[int], share: float) -> NDArray:
        """Return for each head the index of the narrowest width with at least this mean share, or the last, (N, H)."""
        enough = self.by_head(widths) >= share
        enough[..., -1] = True
        return enough.argmax(-1)


def widths_up_to(positions: int) -> tuple[int, ...]:
    """Return the powers of two up to the first width within which all pairs of positions are."""
    widths = [1]
    while widths[-1] < positions - 1:
        widths.append(2 * widths[-1])
    return tuple(widths)


def pairs_within(positions: int, width: int) -> int:
    """Return the number of pairs of positions that are at most `width` apart."""
    width = min(width, positions - 1)
    return positions * (2 * width + 1) - width * (width + 1)
