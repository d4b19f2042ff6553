"""The position term of relative position, as a whole or in parts.

Dai et al. 2019, "Transformer-XL", section 3.3, terms (b) and (d), in ESPnet's bidirectional form:

    term_ij = (q_i + v) . r_{i-j}
"""

from typing import NamedTuple

import torch
from torch import Tensor


class PositionTerm(NamedTuple):
    """Inputs of the position term of the logits.

    Attributes:
        q: Queries with the position bias v, (B, H, T, D).
        p: Projected position embeddings (1 or B, H, 2T-1, D), for distances T-1 ... -(T-1); ESPnet's older encoders
            give (1 or B, H, T, D).
    """

    q: Tensor
    p: Tensor

    def by_distance(self) -> bool:
        """Return whether the term goes by distance alone, which the shift of ESPnet's older encoders does not."""
        return self.p.size(2) == 2 * self.q.size(2) - 1

    def matrix(self) -> Tensor:
        """Compute the term of all pairs, (B, H, T, T)."""
        return relative_shift(torch.matmul(self.q, self.p.transpose(-2, -1)))

    def of_runs(self, queries: Tensor, keys: Tensor, stride: int) -> Tensor:
        """Compute the term of blocks of queries and runs of keys, in O(N R (S + L) S D) time.

        Args:
            queries: Positions of the queries of each block (N, S), `stride` apart.
            keys: Positions of the keys of each block (B or 1, N, R, L): runs of L positions, `stride` apart.
            stride: Distance of neighbouring positions.

        Returns:
            (B, H, N, S, R * L); without meaning for positions outside the sequence.
        """
        batch, heads, time, _ = self.q.shape
        clamped = queries.clamp(max=time - 1)
        if not self.by_distance():
            at = keys.flatten(2).clamp(0, time - 1).unsqueeze(2)
            samples = torch.arange(batch, device=at.device).view(-1, 1, 1, 1)
            return self.matrix().transpose(1, 2)[samples, clamped.unsqueeze(-1), :, at].permute(0, 4, 1, 2, 3)
        size, length = queries.size(1), keys.size(-1)
        shifts = torch.arange(1 - size, length, device=keys.device) * stride  # of the key, relative to the query
        rows = (keys[..., :1] - queries[:, :1, None] + shifts + time - 1).clamp(0, 2 * time - 2)  # (B or 1, N, R, U)
        samples = torch.arange(max(len(rows), len(self.p)), device=rows.device).view(-1, 1, 1, 1)
        p = self.p.transpose(1, 2)[samples % len(self.p), rows]  # (B or 1, N, R, U, H, D)
        by_shift = torch.einsum("bhnsd,bnruhd->bhnsru", self.q[:, :, clamped], p.expand(batch, *p.shape[1:]))
        index = torch.arange(length, device=rows.device) - torch.arange(size, device=rows.device).unsqueeze(-1)
        index = (index + size - 1).unsqueeze(1).expand(*by_shift.shape[:-1], -1)
        return by_shift.gather(-1, index).flatten(-2)


def relative_shift(scores: Tensor) -> Tensor:
    """Turn columns of relative distance into columns of key position.

    (B, H, T, 2T-1) -> (B, H, T, T) for distances T-1 ... -(T-1); ESPnet's older encoders give T columns, kept as T.
    """
    batch, heads, time, columns = scores.shape
    padded = torch.cat([scores.new_zeros(batch, heads, time, 1), scores], dim=-1)
    shifted = padded.view(batch, heads, columns + 1, time)[:, :, 1:].reshape(batch, heads, time, columns)
    return shifted if columns == time else shifted[..., : columns // 2 + 1]
