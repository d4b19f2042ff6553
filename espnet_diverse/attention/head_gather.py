"""Which heads of a pool one call attends with: rows of the projections, by group of samples with the same conditions.

The parameters of head p are the rows pD ... (p + 1)D of linear_q, linear_k, linear_v and linear_pos, and row p of the
position biases. Only the rows of picked heads are multiplied with anything that differs by sample.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.functional.selection import grouped_linear


class AllHeads:
    """Every sample attends with all heads: plain attention.

    Attributes:
        alike: Whether all samples of the batch attend with the same heads.
    """

    alike = True

    def project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """x (B, T, M) -> the heads' queries or keys, (B, T, H * D)."""
        return linear(x)

    def project_values(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """x (B, T, M) -> the heads' values, (B, T, H * D)."""
        return linear(x)

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """x (1, T, M), the same for all samples -> (1 or B, T, H * D)."""
        return linear(x)

    def rows(self, parameter: Tensor) -> Tensor:
        """A parameter with a row a head, (P, D) -> (1 or B, H, D)."""
        return parameter.unsqueeze(0)


class PickedHeads(AllHeads):
    """Each group of samples attends with heads of its own.

    Args:
        picks: Heads of each of G groups, (G, H) int64.
        pool: Number of heads P to pick from.
        weights: Straight-through weights of the picked heads (G, H), 1 in value; None where nothing is learned.
        members: Group of each sample, B numbers below G.
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
        """As of `AllHeads`."""
        return self._map(x, self._gather(linear.weight), self._gather(linear.bias))

    def project_values(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """As of `AllHeads`. Attention is linear in its values, so that s of equations (5)-(7) may stand on them."""
        weight, bias = self._gather(linear.weight), self._gather(linear.bias)
        if self.weights is not None:
            weight, bias = self.weights[..., None, None] * weight, self.weights[..., None] * bias
        return self._map(x, weight, bias)

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """As of `AllHeads`. Where groups differ all P heads are projected, once: less than B times H."""
        if self.alike:
            return F.linear(x, self._gather(linear.weight).flatten(1, 2)[0])
        pool = linear(x).unflatten(-1, (self.pool, -1))[0].transpose(0, 1)  # (P, T, D)
        return pool[self.picks[self.members]].transpose(1, 2).flatten(2)

    def rows(self, parameter: Tensor) -> Tensor:
        """As of `AllHeads`."""
        rows = parameter[self.picks]
        return rows if self.alike else rows[self.members]

    def pruned(self, linear: nn.Linear) -> nn.Linear:
        """The rows of the heads that all samples attend with, as a linear map of its own."""
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
        """Samples by group; once for queries, keys and values where they are projected from one tensor."""
        if self._sorted is None or self._sorted[0] is not x:
            self._sorted = (x, x.index_select(0, self._order))
        return self._sorted[1]
