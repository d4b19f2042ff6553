"""Projections with the heads that each sample has selected from a pool.

The parameters of head p are the rows pD ... (p + 1)D of linear_q, linear_k, linear_v and linear_pos, and row p of the
position biases. Samples with the same conditions form a group; for each group the rows of its selected heads are
gathered, and only these rows are multiplied with the inputs of its samples.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.functional.selection import grouped_linear


class AllHeads:
    """Projections for attention without head selection: every sample attends with all heads.

    Attributes:
        alike: Whether all samples of the batch attend with the same heads.
    """

    alike = True

    def project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project x (B, T, M) to the heads' queries or keys, (B, T, H * D)."""
        return linear(x)

    def project_values(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project x (B, T, M) to the heads' values, (B, T, H * D)."""
        return linear(x)

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project positions x (1, T, M), the same for all samples, to (1 or B, T, H * D)."""
        return linear(x)

    def rows(self, parameter: Tensor) -> Tensor:
        """Gather the heads' rows of a tensor that has one row for each head, (P, ...) -> (1 or B, H, ...)."""
        return parameter.unsqueeze(0)


class SelectedHeads(AllHeads):
    """Projections for attention with head selection: each group of samples attends with its own heads.

    Args:
        picks: Indices of the heads of each of G groups, (G, H) int64.
        pool: Number of heads P in the pool.
        weights: Straight-through weights of the selected heads (G, H), 1 in value, or None if nothing is learned.
        members: Index of the group of each of the B samples.
    """

    def __init__(self, picks: Tensor, pool: int, weights: Tensor | None, members: Sequence[int]):
        self.picks, self.pool, self.weights = picks, pool, weights
        self.alike = len(picks) == 1
        if not self.alike:
            self.sizes = [members.count(group) for group in range(len(picks))]
            self.members = torch.tensor(members, device=picks.device)
            self._order = self.members.argsort(stable=True)
            self._back = self._order.argsort()
            self._sorted: tuple[Tensor, Tensor] | None = None

    def project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project x (B, T, M) to the queries or keys of each sample's heads, (B, T, H * D)."""
        return self._map(x, self._gather(linear.weight), self._gather(linear.bias))

    def project_values(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project x (B, T, M) to the values of each sample's heads, (B, T, H * D).

        Attention is linear in its values, so the weights s of equations (5)-(7) are applied to them.
        """
        weight, bias = self._gather(linear.weight), self._gather(linear.bias)
        if self.weights is not None:
            weight, bias = self.weights[..., None, None] * weight, self.weights[..., None] * bias
        return self._map(x, weight, bias)

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project positions x (1, T, M), the same for all samples, to (1 or B, T, H * D).

        If groups differ, all P heads are projected once, which costs less than H heads for each of B samples.
        """
        if self.alike:
            return F.linear(x, self._gather(linear.weight).flatten(1, 2)[0])
        pool = linear(x).unflatten(-1, (self.pool, -1))[0].transpose(0, 1)  # (P, T, D)
        return pool[self.picks[self.members]].transpose(1, 2).flatten(2)

    def rows(self, parameter: Tensor) -> Tensor:
        """Gather the rows of each sample's heads of a tensor (P, ...) -> (1 or B, H, ...)."""
        rows = parameter[self.picks]
        return rows if self.alike else rows[self.members]

    def pruned(self, linear: nn.Linear) -> nn.Linear:
        """Return a linear map with the rows of the heads that all samples attend with."""
        kept = nn.Linear(linear.in_features, 1, linear.bias is not None)
        kept.weight = nn.Parameter(self._gather(linear.weight).flatten(0, 2).detach())
        kept.out_features = len(kept.weight)
        if linear.bias is not None:
            kept.bias = nn.Parameter(self._gather(linear.bias).flatten().detach())
        return kept

    def _gather(self, parameter: Tensor) -> Tensor:
        """(P * D, ...) -> (G, H, D, ...)."""
        heads = parameter.unflatten(0, (self.pool, -1))
        return heads.index_select(0, self.picks.flatten()).unflatten(0, self.picks.shape)

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, M), weight (G, H, D, M), bias (G, H, D) -> (B, T, H * D)."""
        weight, bias = weight.flatten(1, 2), bias.flatten(1)
        if self.alike:
            return F.linear(x, weight[0], bias[0])
        return grouped_linear(self._sort(x), weight, bias, self.sizes).index_select(0, self._back)

    def _sort(self, x: Tensor) -> Tensor:
        """Sort samples by group; the result is kept, because queries, keys and values often come from one tensor."""
        if self._sorted is None or self._sorted[0] is not x:
            self._sorted = (x, x.index_select(0, self._order))
        return self._sorted[1]
