"""Sparse patterns of self-attention: which positions a query may attend to, and the blocks that they are computed in.

    sliding: |i - j| <= w r and i - j divisible by r, or j or i among the global positions
        Beltagy et al. 2020, "Longformer: The Long-Document Transformer", section 3.1
    own blocks: i and j in one block of s
    strided: i - j divisible by s
        Child et al. 2019, "Generating Long Sequences with Sparse Transformers", section 4.3
    BigBird: blocks of i and j at most w apart, or the block of j drawn at random for that of i, or i or j in the first
        g blocks
        Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences", section 2

Where a pattern is causal, the mask excludes later keys. The keys of a position do not depend on other sequences of the
batch, nor on padding.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from espnet_diverse.functional.block_sparse import Blocks, among, before

_LEAST = 32
"""Least size of a block of queries: for smaller ones, gathering keys takes longer than computing more scores."""


class Pattern(Protocol):
    """A sparse pattern of self-attention."""

    @property
    def causal(self) -> bool:
        """Whether keys after a query are excluded by a mask."""

    def allows(self, query: Tensor, key: Tensor, lengths: Tensor) -> Tensor:
        """Return which pairs of positions attend.

        Args:
            query: Positions of queries, integer.
            key: Positions of keys, integer, broadcastable with `query`.
            lengths: Length of the sequences, integer, broadcastable with the others.
        """

    def blocks(self, time: int, lengths: Tensor) -> Blocks:
        """Return the blocks for a batch of sequences with lengths (B,) or (1,), padded to T positions."""


@dataclass(frozen=True)
class Sliding:
    """A sliding window, dilated or not, and global positions.

    Attributes:
        window: Number of positions w on each side.
        dilation: Distance r of the positions of the window.
        global_runs: Runs of consecutive global positions, `(range(g),)` for the first g. Positions after the end of a
            sequence are ignored.
        causal: Whether keys after a query are excluded by a mask.
    """

    window: int
    dilation: int = 1
    global_runs: tuple[range, ...] = ()
    causal: bool = False

    def open_rows(self) -> tuple[range, ...]:
        """Return the runs of positions that attend to more keys than `global_runs` and the window."""
        return tuple(run for run in self.global_runs if run.start or not self.causal)

    def allows(self, query: Tensor, key: Tensor, lengths: Tensor) -> Tensor:
        """See `Pattern.allows`."""
        distance = query - key
        allowed = (distance.abs() <= self.window * self.dilation) & (distance % self.dilation == 0)
        if self.global_runs:
            allowed = allowed | among(key, self.global_runs)
        return allowed | among(query, rows) if (rows := self.open_rows()) else allowed

    def blocks(self, time: int, lengths: Tensor) -> Blocks:
        """See `Pattern.blocks`. Positions equal modulo r form a sequence of their own, in blocks of w or more."""
        stride, device = min(self.dilation, time), lengths.device
        steps = -(-time // stride)
        window = min(self.window, steps)
        size = min(max(window, _LEAST), steps)
        starts = torch.arange(0, steps, size, device=device)
        span = size + window * (1 if self.causal else 2)
        queries = starts.unsqueeze(-1) + torch.arange(size, device=device)
        keys = starts.unsqueeze(-1) - window + torch.arange(span, device=device)
        phase = torch.arange(stride, device=device).view(-1, 1, 1)
        queries, keys = ((x * stride + phase).flatten(0, 1) for x in (queries, keys))
        shared, rows = before(self.global_runs, time), before(self.open_rows(), time)
        return Blocks(queries, keys[None, :, None], stride, window * stride, shared, rows)


@dataclass(frozen=True)
class Grouped:
    """Groups of positions that attend to each other: the positions of a block, or equal places of all blocks.

    Attributes:
        size: Size s of the blocks.
        strided: Whether a group has equal places, and so i - j is divisible by s.
    """

    size: int
    strided: bool = False
    causal: bool = False  # a mask excludes later keys

    def allows(self, query: Tensor, key: Tensor, lengths: Tensor) -> Tensor:
        """See `Pattern.allows`."""
        if self.strided:
            return (query - key) % self.size == 0
        return query // self.size == key // self.size

    def blocks(self, time: int, lengths: Tensor) -> Blocks:
        """See `Pattern.blocks`."""
        size = min(self.size, time)
        position = torch.arange(-(-time // size) * size, device=lengths.device).view(-1, size)
        position = position.T if self.strided else position
        return Blocks(position, position[None, :, None], size if self.strided else 1)


@dataclass(frozen=True)
class BigBirdBlocks:
    """Blocks of positions that attend to neighbouring, global and random blocks.

    The random blocks of a block are drawn from the blocks of its sequence that it does not see already (with `causal`:
    from the earlier ones), one from each of `random` equal parts of their list, and are the same in every call.

    Attributes:
        size: Positions S in a block.
        window: Number w of neighbouring blocks on each side.
        first: Number g of global blocks, the first of the sequence.
        random: Number of random blocks.
        seed: Seed of the draws.
        causal: Whether keys after a query are excluded by a mask.
    """

    size: int
    window: int = 1
    first: int = 1
    random: int = 3
    seed: int = 0
    causal: bool = False

    def allows(self, query: Tensor, key: Tensor, lengths: Tensor) -> Tensor:
        """See `Pattern.allows`."""
        of_query, of_key = query // self.size, key // self.size
        allowed = ((of_query - of_key).abs() <= self.window) | (of_key < self.first)
        for drawn in self.drawn(of_query, -(-lengths // self.size)).unbind(-1):
            allowed = allowed | (of_key == drawn)
        return allowed if self.causal else allowed | (of_query < self.first)

    def blocks(self, time: int, lengths: Tensor) -> Blocks:
        """See `Pattern.blocks`."""
        size = min(self.size, time)
        block = torch.arange(-(-time // size), device=lengths.device)
        offsets = torch.arange(size, device=lengths.device)
        near = torch.arange(-self.window, 1 if self.causal else self.window + 1, device=lengths.device)
        drawn = self.drawn(block, -(-lengths // size).unsqueeze(-1))  # (B or 1, N, random)
        key_blocks = torch.cat([(block.unsqueeze(-1) + near).expand(len(drawn), -1, -1), drawn], dim=-1)
        queries, keys = (x.unsqueeze(-1) * size + offsets for x in (block, key_blocks))
        first = before((range(self.first * size),), time)
        return Blocks(queries, keys, global_runs=first, open_rows=() if self.causal else first)

    def drawn(self, block: Tensor, count: Tensor) -> Tensor:
        """Return the random blocks of each block in a sequence of `count`, (...) -> (..., random); -1 means none."""
        block, count = torch.broadcast_tensors(block, count)
        count = block + 1 if self.causal else count
        low = (block - self.window).clamp(min=self.first)
        high = torch.minimum(block + self.window, count - 1)
        near = (high - low + 1).clamp(min=0)  # blocks of the window that are not global
        unseen = (count - self.first - near).clamp(min=0).unsqueeze(-1)
        part = torch.arange(self.random, device=block.device)
        draws = _random_bits(block.unsqueeze(-1) * self.random + part, self.seed)
        start, end = (bound * unseen // max(self.random, 1) for bound in (part, part + 1))  # of each part of the unseen
        drawn = self.first + start + ((end - start) * draws >> 32)
        drawn = drawn + near.unsqueeze(-1) * (drawn >= low.unsqueeze(-1))
        return drawn.masked_fill(start == end, -1)


def _random_bits(number: Tensor, seed: int) -> Tensor:
    """Hash integers to 32 random bits by the final steps of MurmurHash3: the same on every device and in every version.

    number (...) int64 -> (...) int64, 0 <= bits < 2^32.
    """
    bits = (number + seed * 0x9E3779B1) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> shift)) * factor & 0xFFFFFFFF
    return bits ^ (bits >> 16)
