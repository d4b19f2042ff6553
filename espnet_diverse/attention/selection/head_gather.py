"""Projections with the heads that each sample has selected from a pool.

The parameters of head p are the rows pD ... (p + 1)D of linear_q, linear_k, linear_v and linear_pos, and row p of the
position biases. Only the rows of selected heads are multiplied with the inputs of a sample. The rows are gathered if
all samples have the same heads, and on a GPU for each group; otherwise they are read in place, see
`functional.pool_linear`.
"""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention.head_patterns import HeadPatterns, SelectedPatterns
from espnet_diverse.functional.pool_linear import Product, pool_linear, pool_products
from espnet_diverse.functional.selection import weigh
from espnet_diverse.scope import current

#: Rows of a sample from which one product for each sample takes less time than one for all samples of a head.
_LONG = 128


class AllHeads:
    """Projections for attention without head selection: every sample attends with all heads.

    Args:
        heads: Number of heads H, which are all heads of the linear maps.

    Attributes:
        alike: Whether all samples of the batch attend with the same heads.
        rest: Heads that were not selected and whose samples get gradients, see `functional.selection.credit`.
    """

    alike = True
    rest: "Sequence[SelectedHeads]" = ()

    def __init__(self, heads: int):
        self.heads = self.pool = heads

    def project(self, linears: Sequence[nn.Linear], inputs: Sequence[Tensor], values: bool = False) -> list[Tensor]:
        """Project inputs, each (B, T, M), by a linear map for each to queries, keys or values (B, H, T, D).

        Args:
            linears: The maps.
            inputs: Their inputs; projections of one input may be computed together.
            values: Whether the last map makes values.
        """
        return [self._split(linear(x), linear) for linear, x in zip(linears, inputs, strict=True)]

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project positions x (1, T, M), the same for all samples, to (1 or B, H, T, D)."""
        return self._split(linear(x), linear)

    def rows(self, parameter: Tensor) -> Tensor:
        """Gather the heads' rows of a tensor that has one row for each head, (P, ...) -> (1 or B, H, ...)."""
        return parameter.unsqueeze(0)

    def patterns(self, pool: HeadPatterns) -> HeadPatterns | SelectedPatterns:
        """Return the patterns of the heads, given the patterns of the pool."""
        return pool

    def _split(self, x: Tensor, linear: nn.Linear) -> Tensor:
        return split_heads(x, self.heads, linear.out_features // self.pool)


class SelectedHeads(AllHeads):
    """Projections for attention with head selection: each group of samples attends with its own heads.

    Args:
        picks: Indices of the heads of each of G groups, (G, H) int64.
        pool: Number of heads P in the pool.
        weights: Straight-through weights of the selected heads (G, H), 1 in value, or None if nothing is learned.
        members: Index of the group of each of the B samples.
        rest: Heads of the groups that were not selected, with their samples as weights.
    """

    def __init__(
        self,
        picks: Tensor,
        pool: int,
        weights: Tensor | None,
        members: Sequence[int],
        rest: "Sequence[SelectedHeads]" = (),
    ):
        super().__init__(picks.size(1))
        self.rest = rest
        self.picks, self.pool, self.weights = picks, pool, weights
        self.alike = len(picks) == 1
        self.members = members
        self._members = None if self.alike else current().copied(members, picks.device)
        self._products: dict[bool, list[Product]] = {}

    def project(self, linears: Sequence[nn.Linear], inputs: Sequence[Tensor], values: bool = False) -> list[Tensor]:
        """Project inputs, each (B, T, M), to the queries, keys or values of each sample's heads, (B, H, T, D).

        Attention is linear in its values, so the weights s of equations (5)-(7) are applied to them.
        """
        if self.alike:
            weights = [None] * (len(linears) - 1) + [self.weights if values else None]
            return [self._project_alike(*args) for args in zip(linears, inputs, weights, strict=True)]
        projected: dict[int, Tensor] = {}
        for x in {id(x): x for x in inputs}.values():
            which = [i for i, other in enumerate(inputs) if other is x]
            projected |= zip(which, self._project_jointly([linears[i] for i in which], x), strict=True)
        in_order = [projected[i] for i in range(len(inputs))]
        if values and self.weights is not None:
            in_order[-1] = weigh(in_order[-1], self.samples())
        return in_order

    def project_positions(self, linear: nn.Linear, x: Tensor) -> Tensor:
        """Project positions x (1, T, M), the same for all samples, to (1 or B, H, T, D).

        If groups differ, all P heads are projected once, which costs less than H heads for each of B samples.
        """
        if self.alike:
            return self._split(F.linear(x, self._gather(linear.weight).flatten(1, 2)[0]), linear)
        return self.rows(AllHeads(self.pool).project_positions(linear, x)[0])

    def samples(self) -> Tensor:
        """Return the weights of each sample of the batch, (1 or B, H)."""
        assert self.weights is not None  # in training
        return self.weights if self._members is None else self.weights[self._members]

    def rows(self, parameter: Tensor) -> Tensor:
        """Gather the rows of each sample's heads of a tensor (P, ...) -> (1 or B, H, ...)."""
        return parameter[self._of_samples()]

    def patterns(self, pool: HeadPatterns) -> HeadPatterns | SelectedPatterns:
        """Return the patterns of each sample's heads, given the patterns of the pool."""
        if self.alike and not self.picks.is_cuda:  # would wait for a GPU
            return pool.of(self.picks[0])
        return SelectedPatterns(pool, self._of_samples())

    def pruned(self, linear: nn.Linear) -> nn.Linear:
        """Return a linear map with the rows of the heads that all samples attend with."""
        pruned = nn.Linear(linear.in_features, 1, linear.bias is not None)
        pruned.weight = nn.Parameter(self._gather(linear.weight).flatten(0, 2).detach())
        pruned.out_features = len(pruned.weight)
        if linear.bias is not None:
            pruned.bias = nn.Parameter(self._gather(linear.bias).flatten().detach())
        return pruned

    def _gather(self, parameter: Tensor) -> Tensor:
        """(P * D, ...) -> (G, H, D, ...)."""
        return self._by_head(parameter).index_select(0, self.picks.flatten()).unflatten(0, self.picks.shape)

    def _by_head(self, parameter: Tensor) -> Tensor:
        """(P * D, ...) -> (P, D, ...)."""
        return parameter.unflatten(0, (self.pool, -1))

    def _project_alike(self, linear: nn.Linear, x: Tensor, weights: Tensor | None) -> Tensor:
        weight, bias = self._gather(linear.weight), self._gather(linear.bias)  # (1, H, D, M), (1, H, D)
        if weights is not None:
            weight, bias = weights[..., None, None] * weight, weights[..., None] * bias
        return self._split(F.linear(x, weight.flatten(1, 2)[0], bias.flatten(1)[0]), linear)

    def _project_jointly(self, linears: Sequence[nn.Linear], x: Tensor) -> Iterable[Tensor]:
        """Project x (B, T, M) by several maps in the same products -> (B, H, T, D) each."""
        weight, bias = (
            torch.cat([self._by_head(parameter) for parameter in parameters], 1)
            for parameters in zip(*((linear.weight, linear.bias) for linear in linears), strict=True)
        )
        if x.is_cuda:
            return self._project_groups(weight, bias, x).chunk(len(linears), -1)
        joined = x.size(1) < _LONG
        if joined not in self._products:
            self._products[joined] = pool_products(self._of_samples(), self.pool, joined)
        return pool_linear(x, weight, bias, self._products[joined]).chunk(len(linears), -1)

    def _project_groups(self, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
        """Project the samples of each group by its heads: weight (P, K, M), bias (P, K), x (B, T, M) -> (B, H, T, K).

        The numbers of samples are known to the host; those of each head, which `pool_products` counts, are not.
        """
        order = sorted(range(len(self.members)), key=self.members.__getitem__)
        sizes = [self.members.count(group) for group in range(len(self.picks))]
        sorted_x = x.index_select(0, current().copied(order, x.device)).split(sizes)
        parts = [
            F.linear(rows, weight[picks].flatten(0, 1), bias[picks].flatten())
            for rows, picks in zip(sorted_x, self.picks, strict=True)
        ]
        places = current().copied(sorted(range(len(order)), key=order.__getitem__), x.device)
        return split_heads(torch.cat(parts).index_select(0, places), self.heads, weight.size(1))

    def _of_samples(self) -> Tensor:
        """Return the heads of each sample, (1 or B, H)."""
        return self.picks if self._members is None else self.picks[self._members]


def split_heads(x: Tensor, heads: int, width: int) -> Tensor:
    """Split the heads of x, (B, T, H * D) -> (B, H, T, D)."""
    return x.view(x.size(0), -1, heads, width).transpose(1, 2)


def zero_of(modules: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Return 0, (), with gradients of 0 for input and parameters of modules whose results are not needed.

    Training in several processes waits for the gradient of each parameter, also of those that `x` was computed with.

    Args:
        modules: The modules.
        x: Their input.
    """
    unused = [x, *(parameter for module in modules for parameter in module.parameters())]
    return torch.stack([each.flatten()[:0].sum().float() for each in unused]).sum()
