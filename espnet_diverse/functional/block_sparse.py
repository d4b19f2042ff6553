"""Softmax attention over a sparse pattern of positions, computed in blocks of queries that share a list of keys.

    context_i = sum_{j in A(i)} softmax_j(q_i . k_j / sqrt(D)) v_j        A(i): the positions that i may attend to

A pattern (`functional.sparse_patterns`) divides the queries into blocks of S, and lists for each block the keys that
any of its queries may attend to. The listed keys are gathered, and each block is a small dense attention. With N blocks
and K keys each the cost is O(N S K D) time and O(N K (D + S)) memory; the matrix (Tq, Tk) is never made. Without
gradients, blocks are computed in portions of bounded size, so that the memory besides the output is constant.
"""

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.fused_attention import fused_attention

PositionOfRuns = Callable[[Tensor, Tensor, int], Tensor]
"""Position term before scaling: queries (N, S), keys (B or 1, N, R, L), stride -> (B, H, N, S, R * L)."""


class Blocks(NamedTuple):
    """Blocks of queries and the keys of each. Positions outside the sequence mean that there is no query or key.

    Attributes:
        queries: Positions of the queries of each block (N, S), `stride` apart; every position of the sequence is in
            one block.
        keys: Positions of the keys of each block, (B or 1, N, R, L): R runs of L positions, `stride` apart. No key is
            in two runs of a block.
        stride: Distance between neighbouring queries of a block, and between neighbouring keys of a run.
        reach: The greatest distance of a query and a key of `keys`, or None if there is no such limit.
        global_runs: Runs of consecutive positions of the sequence that every query may attend to; in `keys` they are
            ignored.
        open_rows: Those of these runs whose positions attend to all.
    """

    queries: Tensor
    keys: Tensor
    stride: int = 1
    reach: int | None = None
    global_runs: tuple[range, ...] = ()
    open_rows: tuple[range, ...] = ()

    def width(self) -> int:
        """Return the number of keys K of a block."""
        return self.keys[0, 0].numel() + sum(map(len, self.global_runs))

    def scores(self) -> int:
        """Return the number of scores that the blocks have in a sequence."""
        return self.queries.numel() * self.width()


def among(position: Tensor, runs: tuple[range, ...]) -> Tensor:
    """Return which positions (...) are in any of some runs, at least one: bool (...)."""
    return reduce(operator.or_, ((position >= run.start) & (position < run.stop) for run in runs))


def before(runs: tuple[range, ...], time: int) -> tuple[range, ...]:
    """Return the parts of some runs that are before position T, without empty ones."""
    return tuple(range(run.start, min(run.stop, time)) for run in runs if run.start < min(run.stop, time))


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Blocks,
    mask: Tensor | None = None,
    position: PositionOfRuns | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute self-attention over the pattern of `blocks`.

    Args:
        q: Queries (B, H, T, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D).
        blocks: The pattern.
        mask: Bool, True = may attend besides the pattern, broadcastable to (B, 1, T, T).
        position: Computes the position term of the logits; None if there is none.
        dropout: Dropout rate of the weights.

    Returns:
        Context (B, H, T, D), zero for queries that may attend to nothing.
    """
    count = len(blocks.queries)
    portion = max(1, _portion(q.device) // (blocks.width() * q[:, :, 0].numel()))
    step = count if _differentiated(q, k, v) else portion
    parts = []
    for n in range(0, count, step):
        chunk = blocks._replace(queries=blocks.queries[n : n + step], keys=blocks.keys[:, n : n + step])
        parts.append(_attend(q, k, v, chunk, mask, position, dropout))
    context = torch.cat(parts, dim=1)[:, blocks.queries.flatten().argsort()[: q.size(2)]]
    if blocks.open_rows:
        runs = _positions(blocks.open_rows, q.device)
        chosen = torch.cat(runs)
        rows = Blocks(chosen.unsqueeze(0), torch.arange(q.size(2), device=q.device).view(1, 1, 1, -1))
        term = None if position is None else _of_rows(position, runs)
        context.index_copy_(1, chosen, _attend(q, k, v, rows, mask, term, dropout))
    return context.transpose(1, 2)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Blocks,
    mask: Tensor | None,
    position: PositionOfRuns | None,
    dropout: float,
) -> Tensor:
    """Attend in some of the blocks -> (B, N * S, H, D), in the order of `blocks.queries`."""
    batch, heads, time, width = q.shape
    queries, listed = blocks.queries, blocks.keys.flatten(2)
    allowed = (listed >= 0) & (listed < time)
    if blocks.global_runs:
        allowed = allowed & ~among(listed, blocks.global_runs)
    allowed = allowed.unsqueeze(2)  # (B or 1, N, 1, K)
    if blocks.reach is not None:
        allowed = allowed & ((queries.unsqueeze(-1) - listed.unsqueeze(2)).abs() <= blocks.reach)
    runs = _positions(blocks.global_runs, q.device)
    keys = torch.cat([*(run.expand(*listed.shape[:2], -1) for run in runs), listed.clamp(0, time - 1)], dim=-1)
    allowed = F.pad(allowed.expand(-1, -1, queries.size(1), -1), (keys.size(-1) - listed.size(-1), 0), value=True)
    queries = queries.clamp(max=time - 1)
    if mask is not None:
        allowed = allowed & _of_pairs(mask.expand(-1, -1, -1, time), queries, keys)
    bias = allowed.expand(batch, -1, -1, -1).flatten(0, 1).unsqueeze(1)  # (B * N, 1, S, K)
    if position is not None:
        shape = (1, -1) if blocks.stride == 1 else (-1, 1)  # runs have the stride of the queries
        listed_runs = [*(run.view(shape).expand(1, len(queries), -1, -1) for run in runs), blocks.keys]
        term = torch.cat([position(blocks.queries, run, blocks.stride) for run in listed_runs], dim=-1)
        bias = (term.transpose(1, 2).flatten(0, 1) / math.sqrt(width)).masked_fill(~bias, -torch.inf)
    gathered = _gather(q, queries.unsqueeze(0)), _gather(k, keys), _gather(v, keys)  # (B * N, H, S or K, D)
    context = fused_attention(*gathered, bias, dropout)
    return context.transpose(1, 2).reshape(batch, -1, heads, v.size(-1))


def _positions(runs: tuple[range, ...], device: torch.device) -> list[Tensor]:
    """Return the positions of each run; made on the device, for which it need not wait."""
    return [torch.arange(run.start, run.stop, device=device) for run in runs]


def _of_rows(position: PositionOfRuns, runs: list[Tensor]) -> PositionOfRuns:
    """Return the position term of a block whose queries are several runs of consecutive positions."""
    return lambda _, keys, stride: torch.cat([position(run.unsqueeze(0), keys, stride) for run in runs], dim=3)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """Gather positions: x (B, H, T, D), index (B or 1, N, K) -> (B * N, H, K, D)."""
    batch, heads, time, width = x.shape
    samples = torch.arange(batch, device=x.device).view(-1, 1, 1) * time
    rows = x.transpose(1, 2).reshape(batch * time, heads * width).index_select(0, (index + samples).flatten())
    return rows.view(-1, index.size(-1), heads, width).transpose(1, 2)


def _of_pairs(mask: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Gather a mask (B or 1, 1, T or 1, T) at queries (N, S) and keys (B or 1, N, K) -> (B or 1, N, S or 1, K)."""
    mask = mask.squeeze(1)
    samples = torch.arange(len(mask), device=mask.device).view(-1, 1, 1)
    if mask.size(1) == 1:
        return mask[:, 0][samples, keys].unsqueeze(2)
    return mask[samples.unsqueeze(-1), queries.unsqueeze(-1), keys.unsqueeze(2)]


def _differentiated(*tensors: Tensor) -> bool:
    """Return whether gradients are due: autograd would keep all portions, each with a gradient of the whole's size."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _portion(device: torch.device) -> int:
    """Return how many numbers the keys of a portion may have: on a CPU a few portions should fit the cache."""
    return 2**21 if device.type == "cpu" else 2**26
