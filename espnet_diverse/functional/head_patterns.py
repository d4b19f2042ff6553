"""Patterns of the heads of one attention: the keys j that a query i of a sequence of n positions may attend to.

    global       all
    window w     |i - j| <= w
    block s      floor(i / s) = floor(j / s)
    strided s    i - j divisible by s
    ends s, c    j mod s >= s - c, the last c positions of blocks, or j = i
    forward      j <= i
    backward     j >= i
    previous     j = max(i - 1, 0)
    next         j = min(i + 1, n - 1)
    start        j = 0
    end          j = n - 1

global, window, forward and backward are from Cui et al. 2019, "Mixed Multi-Head Self-Attention for Neural Machine
Translation"; patterns with one key for each query are from Raganato et al. 2020, "Fixed Encoder Self-Attention Patterns
in Transformer-Based Machine Translation". Child et al. 2019, "Generating Long Sequences with Sparse Transformers",
section 4.3, factorise causal attention over two heads: window and strided, or block and ends. Here every query of a
sequence attends to at least one key.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.fused_attention import fused_attention
from espnet_diverse.functional.sparse_patterns import Grouped, Pattern, Sliding

#: Queries of a block of `_in_blocks`.
_BLOCK = 128

ONE_KEY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "previous": lambda query, last: (query - 1).clamp(min=0),
    "next": lambda query, last: torch.minimum(query + 1, last),
    "start": lambda query, last: torch.zeros_like(query),
    "end": lambda query, last: last.expand_as(query),
}
"""Patterns with one key for each query: positions of queries and the last position of their sequences -> the key."""

SOME_KEYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "global": lambda query, key: torch.ones_like(query - key, dtype=torch.bool),
    "forward": lambda query, key: key <= query,
    "backward": lambda query, key: key >= query,
}
"""The other patterns without a width: positions of queries and keys -> which pairs attend."""


IN_BLOCKS: dict[str, Callable[[int], Pattern]] = {
    "window": Sliding,
    "block": Grouped,
    "strided": partial(Grouped, strided=True),
}
"""Patterns that are computed in blocks, by their width w or size s."""

WITH_WIDTH = (*IN_BLOCKS, "ends")
"""Names of the patterns with a width w or size s."""


def allowed_pairs(name: str, query: Tensor, key: Tensor, length: Tensor, width: int = 0, last: int = 1) -> Tensor:
    """Compute which pairs of positions attend.

    Args:
        name: Name of the pattern.
        query: Positions of queries, integer.
        key: Positions of keys, integer, broadcastable with `query`.
        length: Lengths n of the sequences, integer, broadcastable with both.
        width: Width w or size s of a pattern of `WITH_WIDTH`.
        last: Number c of last positions of a block, for ends.

    Returns:
        Bool, of the shape that all broadcast to.
    """
    if name in IN_BLOCKS:
        allowed = IN_BLOCKS[name](width).allows(query, key, length)
    elif name == "ends":
        allowed = (key % width >= width - last) | (key == query)
    elif name in ONE_KEY:
        query = query + torch.zeros_like(length)
        allowed = key == ONE_KEY[name](query, length - 1)
    else:
        allowed = SOME_KEYS[name](query, key)
    return allowed


def gated_bias(gates: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the logarithm of the share of each pair in patterns that are mixed by gates.

    Args:
        gates: Gates of P patterns (H, P), which sum to 1.
        pairs: Pairs of each pattern, bool (B or 1, P, Tq, Tk), True = may attend.

    Returns:
        log sum_p g_hp M_p(i, j), (B or 1, H, Tq, Tk), 0 for pairs in no pattern; and the pairs in any, bool (B or 1, 1,
        Tq, Tk).
    """
    allowed = pairs.any(1, keepdim=True)
    share = torch.einsum("hp,bpij->bhij", gates, pairs.to(gates.dtype))
    least = torch.finfo(share.dtype).tiny  # a gate may underflow to 0, whose logarithm has no finite gradient
    return share.masked_fill(~allowed, 1.0).clamp(min=least).log(), allowed


def one_key_attention(name: str, v: Tensor, length: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """Compute the context of heads whose queries have one key each, with the weight 1.

    Args:
        name: Name of the pattern, in `ONE_KEY`.
        v: Values (B, H, T, D).
        length: Lengths n of the sequences (B,) or (1,).
        mask: Bool, True = may attend besides the pattern, broadcastable to (B, 1, T, T), or None.
        dropout: Dropout rate of the weights.

    Returns:
        Context (B, H, T, D), zero for queries that may not attend to their key and without meaning at padding.
    """
    context = _value_of_key(name, v, length)
    if mask is not None and mask.size(-2) > 1:  # else queries that may not attend to their key are padding
        query = torch.arange(v.size(2), device=v.device)
        key = ONE_KEY[name](query + torch.zeros_like(length).unsqueeze(-1), length.unsqueeze(-1) - 1).clamp(min=0)
        key = key[:, None, :, None].expand(len(v), -1, -1, -1)  # (B, 1, T, 1)
        context = context.masked_fill(~mask.expand(len(v), 1, -1, -1).gather(3, key), 0.0)
    return context * F.dropout(torch.ones_like(v[..., :1]), dropout) if dropout else context


def _value_of_key(name: str, v: Tensor, length: Tensor) -> Tensor:
    """Return the value of the key of each query (B, H, T, D), by slices: a gather costs more than the attention."""
    if name == "previous":
        return torch.cat([v[:, :, :1], v[:, :, :-1]], dim=2)
    if name == "start":
        return v[:, :, :1].expand_as(v)
    last = (length - 1).clamp(min=0).view(-1, 1, 1, 1)
    if name == "end":
        return v.gather(2, last.expand(len(v), v.size(1), 1, v.size(3))).expand_as(v)
    query = torch.arange(v.size(2), device=v.device).unsqueeze(-1)
    return torch.where(query < last, torch.cat([v[:, :, 1:], v[:, :, -1:]], dim=2), v)


def ends_attention(
    q: Tensor, k: Tensor, v: Tensor, size: int, last: int = 1, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Compute softmax attention of the pattern ends with c T / s + 1 scores for each query.

    Args:
        q: Queries (B, H, T, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D).
        size: Size s of the blocks.
        last: Number c of their last positions.
        mask: Bool, True = may attend besides the pattern, broadcastable to (B, 1, T, T), or None.
        dropout: Dropout rate of the weights.

    Returns:
        Context (B, H, T, D), without meaning at padding.
    """
    time, scale = q.size(2), q.size(-1) ** -0.5
    starts = torch.arange(size - last, size - last + time, size, device=q.device)
    ends = (starts.unsqueeze(-1) + torch.arange(last, device=q.device)).flatten()
    ends = ends[: time // size * last + max(time % size + last - size, 0)]  # without those after the end
    logits = torch.cat([q @ k[:, :, ends].transpose(-2, -1), (q * k).sum(-1, keepdim=True)], dim=-1) * scale
    allowed = torch.ones(time, len(ends) + 1, dtype=torch.bool, device=q.device)
    allowed[ends, -1] = False  # which are there already
    if mask is not None:
        mask = mask.expand(-1, -1, time, time)
        diagonal = mask.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        allowed = allowed & torch.cat([mask[..., ends], diagonal], dim=-1)
    logits = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)
    weights = F.dropout(logits.softmax(-1), dropout)
    return weights[..., :-1] @ v[:, :, ends] + weights[..., -1:] * v


def triangular_attention(
    q: Tensor, k: Tensor, v: Tensor, forward: bool, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Compute softmax attention of the patterns forward and backward with half of all scores.

    Args:
        q: Queries (B, H, T, D).
        k: Keys (B, H, T, D).
        v: Values (B, H, T, D).
        forward: Whether the pattern is forward, j <= i; otherwise backward, j >= i.
        mask: Bool, True = may attend besides the pattern, broadcastable to (B, 1, T, T), or None.
        dropout: Dropout rate of the weights.

    Returns:
        Context (B, H, T, D), without meaning at padding.
    """
    if dropout or not (mask is None or _is_padded_at_the_end(mask)):
        return _in_blocks(q, k, v, forward, mask, dropout)
    if forward:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    order = _backwards(q, mask)
    q, k, v = (_in_order(x, order) for x in (q, k, v))
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return _in_order(context, order)


def _is_padded_at_the_end(mask: Tensor) -> bool:
    """Return whether a mask excludes just the ends of sequences; on a GPU, which would wait for it, never."""
    return not mask.is_cuda and mask.size(-2) == 1 and bool((mask[..., 1:] <= mask[..., :-1]).all())


def _backwards(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the positions of x (B, H, T, D) from the last to the first, padding in its place: (B or 1, T)."""
    position = torch.arange(x.size(2), device=x.device)
    if mask is None:
        return position.flip(0).unsqueeze(0)
    length = mask[:, 0, 0].sum(-1, keepdim=True)
    return torch.where(position < length, length - 1 - position, position)


def _in_order(x: Tensor, order: Tensor) -> Tensor:
    """Gather the positions of x (B, H, T, D) in an order (B or 1, T) that is its own inverse."""
    return x.gather(2, order[:, None, :, None].expand(len(x), x.size(1), -1, x.size(3)))


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, forward: bool, mask: Tensor | None, dropout: float) -> Tensor:
    """Compute `triangular_attention` for blocks of queries and the keys that any query of a block may attend to."""
    time, parts = q.size(2), []
    position = torch.arange(time, device=q.device)
    if mask is not None:
        mask = mask.expand(-1, -1, -1, time)
    for first in range(0, time, _BLOCK):
        rows = slice(first, min(first + _BLOCK, time))
        keys = slice(0, rows.stop) if forward else slice(first, time)
        distance = position[rows].unsqueeze(-1) - position[keys]
        allowed = distance >= 0 if forward else distance <= 0
        if mask is not None:
            allowed = allowed & (mask if mask.size(2) == 1 else mask[:, :, rows])[..., keys]
        parts.append(fused_attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], allowed, dropout))
    return torch.cat(parts, dim=2)
