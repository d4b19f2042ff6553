"""Sparse Sinkhorn attention: a block attends to itself and to a block that is chosen for it.

Tay et al. 2020, "Sparse Sinkhorn Attention", section 3; equations of S in `functional/sinkhorn.py`.

    R_nm = (mean of q in block n) . (mean of k in block m) / sqrt(D)                   logits of block m for place n
    K_S, V_S = blocks of keys and values, sorted by S(R)
    context_i = softmax_j(q_i . [K_S; K]_nj / sqrt(D)) [V_S; V]_n,    n = block of i

The keys of a block are those at the same place of the sorted sequence, followed by its own. In the paper R is the
output of a network with one unit for each block, so that the number of blocks is fixed; products of means, as in a
public implementation (sinkhorn-transformer), have no parameters and fit every length. Sorting would show later blocks
to earlier ones, so there is no causal form here.

Softmax-equivalent setting: a block that is as long as the longest sequence; the sorted block is then the block itself.
Cost: O(T S D + T^2 D / S) time and O(T (S + D) + (T / S)^2) memory for blocks of S positions.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.supports import Supports
from espnet_diverse.functional.fused_attention import fused_attention
from espnet_diverse.functional.sinkhorn import gumbel_like, sinkhorn, sort_blocks
from espnet_diverse.option_checks import number


@dataclass(frozen=True)
class SinkhornOptions(Core.Options):
    """Options of sparse Sinkhorn attention.

    Attributes:
        block_size: Positions S in a block.
        iterations: Number of steps of the normalisation.
        temperature: Temperature tau of the logits; a small one chooses single blocks.
    """

    block_size: int = number(64, least=1)
    iterations: int = number(8, least=1)
    temperature: float = number(0.75, above=0)


class Sinkhorn(Core):
    """Softmax attention to the own block and to a sorted one. It has no weights over frames."""

    Options = SinkhornOptions
    options: SinkhornOptions
    supports = Supports(head_selection=True)
    SOFTMAX_EQUIVALENT = {"block_size": 2**20}

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, T, D)."""
        if torch.jit.is_tracing():
            raise ValueError("attention 'sinkhorn' has a number of blocks that depends on the length; ONNX fixes it")
        time, size = heads.k.size(2), min(self.options.block_size, heads.k.size(2))
        valid = _blocks((torch.arange(time, device=heads.k.device) < heads.lengths().unsqueeze(1)).unsqueeze(-1), size)
        valid_positions = valid.unsqueeze(1)  # (B or 1, 1, N, S, 1)
        q, k, v = (_blocks(x, size) for x in (heads.q, heads.k, heads.v))
        k, v = k.masked_fill(~valid_positions, 0.0), v.masked_fill(~valid_positions, 0.0)
        order = self._order(q.masked_fill(~valid_positions, 0.0), k, valid.squeeze(-1))
        chosen = valid.any(1, keepdim=True).expand_as(valid)  # places of a sorted block that hold positions
        mask = torch.cat([chosen, valid], dim=2).transpose(2, 3)  # (B or 1, N, 1, 2 S)
        keys, values = (torch.cat([sort_blocks(order, x), x], dim=3).flatten(1, 2) for x in (k, v))
        context = fused_attention(q.flatten(1, 2), keys, values, mask.repeat(1, k.size(1), 1, 1), heads.dropout)
        return context.view_as(q).flatten(2, 3)[:, :, :time], None

    def _order(self, q: Tensor, k: Tensor, valid: Tensor) -> Tensor:
        """Compute S(R) (B, H, N, N) of blocks of queries and keys (B, H, N, S, D) with positions (B or 1, N, S)."""
        count = valid.sum(-1).clamp(min=1)[:, None, :, None]
        logits = (q.sum(3) / count) @ (k.sum(3) / count).transpose(-2, -1) / q.size(-1) ** 0.5
        noise = gumbel_like(logits) if self.training else 0.0
        return sinkhorn((logits + noise) / self.options.temperature, valid.any(-1), self.options.iterations)


def _blocks(x: Tensor, size: int) -> Tensor:
    """Split positions into blocks, padded with 0: (..., T, D) -> (..., N, S, D)."""
    return F.pad(x, (0, 0, 0, -x.size(-2) % size)).unflatten(-2, (-1, size))
