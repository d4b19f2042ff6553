"""Attention within buckets of locality-sensitive hashing: Kitaev et al. 2020, "Reformer", section 2.

    h_r(x) = argmax [x R_r; -x R_r]                                     bucket of x in round r, R_r of random numbers
    P_i^r = {j : floor(s_i / m) - 1 <= floor(s_j / m) <= floor(s_i / m)}                                           (5)
    o_i = sum over j in the union of the P_i^r of exp(q_i . k_j / sqrt(D) - z_i) v_j                           (2), (3)

s_i is the place of position i when all are sorted by bucket and then by position: a chunk of m places attends to itself
and to the chunk before. A round computes its own softmax, in which a pair of several rounds is divided by their number,
and rounds are added in proportion to their sums, so that o_i is one softmax over the union.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_ALONE = -1e5  # added to the logit of a position with itself, which it attends to only if there is no other


def hash_buckets(x: Tensor, rotations: Tensor) -> Tensor:
    """Return the buckets of vectors: x (B, H, T, D) and R (rounds, D, n / 2) -> (B, H, rounds, T), from 0 to n - 1."""
    rotated = torch.einsum("bhtd,rdn->bhrtn", x, rotations)
    return torch.cat([rotated, -rotated], -1).argmax(-1)


def sorted_positions(buckets: Tensor, valid: Tensor) -> Tensor:
    """Return the positions in the order of their places: buckets (B, H, R, T), bool valid (B or 1, T) -> (B, H, R, T).

    Positions that are not valid come last.
    """
    time = buckets.size(-1)
    key = buckets * time + torch.arange(time, device=buckets.device)
    last = torch.iinfo(key.dtype).max // 2
    return key.masked_fill(~valid[:, None, None], last).argsort(dim=-1, stable=True)


def lsh_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    orders: tuple[Tensor, Tensor],
    valid: Tensor,
    size: int,
    tied: bool,
    dropout: float = 0.0,
) -> Tensor:
    """Attend within chunks of sorted positions.

    Args:
        q: Queries (B, H, T, D); T is a multiple of `size`.
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D), finite at all positions.
        orders: `sorted_positions` of the queries and of the keys, (B, H, R, T) each.
        valid: Keys that may be attended to, bool (B or 1, T).
        size: Number of positions m in a chunk.
        tied: Whether keys are queries; a position then attends to itself only if there is no other.
        dropout: Dropout rate of the weights.

    Returns:
        The context (B, H, T, D).
    """
    place = orders[0].argsort(-1)  # of each position, (B, H, R, T)
    of_keys = place if orders[1] is orders[0] else orders[1].argsort(-1)
    positions = orders[0].unflatten(-1, (-1, size)), _with_previous(orders[1].unflatten(-1, (-1, size)), -1)
    open_keys = valid[:, None, None].expand_as(orders[1]).gather(-1, orders[1]).unflatten(-1, (-1, size))
    open_keys = _with_previous(open_keys, False)
    queries = _sorted(q, orders[0]).unflatten(3, (-1, size))
    keys, values = (_with_previous(_sorted(x, orders[1]).unflatten(3, (-1, size)), 0.0) for x in (k, v))
    logits = queries @ keys.transpose(-2, -1) / q.size(-1) ** 0.5  # (B, H, R, N, m, 2 m)
    logits = logits - _rounds_of_pairs(positions, (place // size, of_keys // size)).to(logits.dtype).log()
    if tied:
        logits = logits + _ALONE * (positions[0].unsqueeze(-1) == positions[1].unsqueeze(-2))
    logits = logits.masked_fill(~open_keys.unsqueeze(-2), torch.finfo(logits.dtype).min / 2)
    total = logits.logsumexp(-1)
    weights = F.dropout((logits - total.unsqueeze(-1)).exp(), dropout)
    context = (weights @ values).flatten(3, 4).gather(3, place.unsqueeze(-1).expand(*place.shape, v.size(-1)))
    shares = total.flatten(3).gather(3, place).softmax(2)
    return (shares.unsqueeze(-1) * context).sum(2)


def _sorted(x: Tensor, order: Tensor) -> Tensor:
    """Sort positions: x (B, H, T, D) by (B, H, R, T) -> (B, H, R, T, D)."""
    rounds = x.unsqueeze(2).expand(-1, -1, order.size(2), -1, -1)
    return rounds.gather(3, order.unsqueeze(-1).expand(*order.shape, x.size(-1)))


def _with_previous(x: Tensor, nothing: float) -> Tensor:
    """Join each chunk to the one before, the first to `nothing`: (B, H, R, N, m, ...) -> (B, H, R, N, 2 m, ...)."""
    first = torch.full_like(x[:, :, :, :1], nothing)
    return torch.cat([torch.cat([first, x[:, :, :, :-1]], 3), x], 4)


def _rounds_of_pairs(positions: tuple[Tensor, Tensor], chunks: tuple[Tensor, Tensor]) -> Tensor:
    """Return the number of rounds in which a query and a key share chunks, (B, H, R, N, m, 2 m), at least 1.

    Args:
        positions: Queries (B, H, R, N, m) and keys (B, H, R, N, 2 m) of each chunk.
        chunks: Chunks of the positions of queries and of keys, (B, H, R, T) each.
    """
    q, k = positions
    k = k.clamp(min=0)  # before the first chunk, where no key is open
    count: Tensor | int = 0
    for of_query, of_key in zip(*(x.unbind(2) for x in chunks), strict=True):
        ahead = _chunk_at(of_query, q).unsqueeze(-1) - _chunk_at(of_key, k).unsqueeze(-2)
        count = count + ((ahead == 0) | (ahead == 1)).int()
    assert isinstance(count, Tensor)
    return count.clamp(min=1)


def _chunk_at(chunk: Tensor, positions: Tensor) -> Tensor:
    """Look up the chunks (B, H, T) of positions (B, H, R, N, m)."""
    return chunk.gather(2, positions.flatten(2)).view_as(positions)
