"""Heads of one attention that differ by construction: a pattern of allowed keys for each.

    attention: {core: softmax, head_patterns: [global, window: 2, forward, backward]}

With H heads and fewer patterns, the list is repeated; a list of lists has the patterns of each layer of a net. With
head selection it is repeated over the pool, and a selected head keeps its pattern, so that each attention learns which
of its heads have which pattern. Equations and papers are in `functional/head_patterns.py`. The patterns need no
parameters; a mask of pairs is added to the padding mask. Softmax over long sequences computes each pattern separately:
`window`, `block`, `strided` and `ends` with the products that they need, `forward` and `backward` with half of all
products, and heads with one key for each query without any.

In cross-attention a query has its own position in the source, or the last one if the source is shorter: a band of slope
1 for texts. Cached decoding tells the position by `Stream.query_position`.

Softmax-equivalent setting: `head_patterns: [global]`.
Cost: as the core with a mask of all pairs of positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.functional.head_patterns import ONE_KEY, SOME_KEYS, WITH_WIDTH, allowed_pairs
from espnet_diverse.option_checks import OptionError, hint, must_be
from espnet_diverse.scope import current

#: Names of the patterns, and of those that fit causal attention, where a query attends to no later key.
NAMES = (*SOME_KEYS, *WITH_WIDTH, *ONE_KEY)
_CAUSAL = ("global", *WITH_WIDTH, "previous", "start")


@dataclass(frozen=True)
class HeadPattern:
    """Pattern of a head.

    Attributes:
        name: One of `NAMES`.
        width: Number of positions of a window on each side, or of a block.
        last: Number of last positions of a block, for ends.
    """

    name: str
    width: int = 0
    last: int = 1

    @property
    def option(self) -> str | dict[str, int | list[int]]:
        """The pattern as it is written in a configuration."""
        if self.last > 1:
            return {self.name: [self.width, self.last]}
        return {self.name: self.width} if self.name in WITH_WIDTH else self.name


@dataclass(frozen=True)
class HeadPatterns:
    """Patterns of all heads; equal ones are equal objects, so that layers can share a mask.

    Attributes:
        patterns: The pattern of each head.
        causal: Whether the mask excludes keys after a query.
        cross: Whether they are for cross-attention.
    """

    patterns: tuple[HeadPattern, ...]
    causal: bool = False
    cross: bool = False

    def __call__(self, mask: Tensor) -> Tensor:
        """Add the patterns to a mask of the self-attention of whole sequences.

        mask (B, 1, 1 or T, T), True = may attend -> (B, H, T, T).
        """
        position = torch.arange(mask.size(-1), device=mask.device)
        return self.allowed(mask, position.unsqueeze(-1), position, key_lengths(mask))

    def allowed(self, mask: Tensor | None, query: Tensor, key: Tensor, length: Tensor) -> Tensor:
        """Compute the keys that each query of each head may attend to.

        Args:
            mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk), or None.
            query: Positions of the queries, broadcastable to (B, 1, Tq, 1).
            key: Positions of the keys, broadcastable to (B, 1, Tq, Tk).
            length: Lengths of the sequences (B,) or (1,).

        Returns:
            Bool (B or 1, H, Tq, Tk).
        """
        length = length.view(-1, 1, 1, 1)
        if query.dim() < 4:
            query, key = (x.expand(1, 1, -1, -1) if x.dim() == 2 else x.view(1, 1, 1, -1) for x in (query, key))
        different = {
            pattern: allowed_pairs(pattern.name, query, key, length, pattern.width, pattern.last)
            for pattern in self.groups()
        }
        pairs = torch.cat(torch.broadcast_tensors(*(different[pattern] for pattern in self.patterns)), dim=1)
        return pairs if mask is None else pairs & mask

    @property
    def one_key(self) -> bool:
        """Whether each query of each head attends to one key, whatever the logits are."""
        return all(pattern.name in ONE_KEY for pattern in self.patterns)

    @property
    def linear(self) -> bool:
        """Whether each query of each head attends to a limited number of keys that are computed alone."""
        return all(pattern.name in ("window", "block", *ONE_KEY) for pattern in self.patterns)

    def shared(self, mask: Tensor) -> Tensor:
        """Return `self(mask)`, while losses are collected the same object for all layers."""
        return current().once(self, mask)

    def of(self, heads: Tensor) -> "HeadPatterns":
        """Return the patterns of some heads, (H,) int64."""
        return replace(self, patterns=tuple(self.patterns[head] for head in heads.tolist()))

    def groups(self) -> dict[HeadPattern, list[int]]:
        """Return the heads of each pattern."""
        return {pattern: [h for h, other in enumerate(self.patterns) if other == pattern] for pattern in self.patterns}


@dataclass(frozen=True, eq=False)
class SelectedPatterns:
    """Patterns of the heads of each sample; see `HeadPatterns`, which has the same methods.

    Attributes:
        pool: The patterns of all heads of the pool.
        heads: The selected heads of each sample (B, H), int64, or of all samples (1, H).
    """

    pool: HeadPatterns
    heads: Tensor

    @property
    def causal(self) -> bool:
        """Whether the mask excludes keys after a query."""
        return self.pool.causal

    @property
    def cross(self) -> bool:
        """Whether they are for cross-attention."""
        return self.pool.cross

    def allowed(self, mask: Tensor | None, query: Tensor, key: Tensor, length: Tensor) -> Tensor:
        """Compute the keys that each query of each head may attend to, bool (B, H, Tq, Tk)."""
        return self._gather(self.pool.allowed(mask, query, key, length))

    def shared(self, mask: Tensor) -> Tensor:
        """Add the patterns to a mask of the self-attention of whole sequences (B, 1, 1 or T, T) -> (B, H, T, T)."""
        return self._gather(self.pool.shared(mask))

    def _gather(self, pairs: Tensor) -> Tensor:
        """(B or 1, P, Tq, Tk) -> (B or 1, H, Tq, Tk)."""
        if len(self.heads) == 1:
            return pairs.index_select(1, self.heads[0])
        samples = torch.arange(len(self.heads), device=pairs.device).unsqueeze(-1)
        return pairs.expand(len(self.heads), -1, -1, -1)[samples, self.heads]


def key_lengths(mask: Tensor) -> Tensor:
    """Return the lengths of key sequences, up to the last key that any query may attend to: (B, 1, Tq, Tk) -> (B,)."""
    numbers = torch.arange(1, mask.size(-1) + 1, device=mask.device)
    return (mask.any(-2).squeeze(1) * numbers).amax(-1)


def build_head_patterns(
    patterns: Sequence[HeadPattern], heads: int, cross: bool = False, causal: bool = False
) -> HeadPatterns:
    """Build the patterns of H heads.

    Args:
        patterns: The patterns, which are repeated.
        heads: Number of heads, a multiple of the number of patterns; with head selection, the heads of the pool.
        cross: Whether the patterns are for cross-attention.
        causal: Whether the patterns are for causal self-attention.

    Raises:
        OptionError: A pattern does not fit the attention, or their number does not divide H.
    """
    later = next((pattern.name for pattern in patterns if pattern.name not in _CAUSAL), None) if causal else None
    message = None
    if heads % len(patterns):
        message = f"{len(patterns)} patterns do not fit {heads} heads; give a number that divides it"
    elif later is not None:
        message = f"pattern {later} does not fit causal attention; choose from {' '.join(_CAUSAL)}"
    if message is not None:
        raise OptionError("head_patterns", message)
    return HeadPatterns(tuple(patterns) * (heads // len(patterns)), causal, cross)


def head_patterns(settings: Sequence[Any]) -> list[HeadPattern]:
    """Read the patterns of one attention from a configuration.

    Raises:
        OptionError: They are no list of at least one pattern, or a pattern is unknown.
    """
    if not isinstance(settings, list | tuple) or not settings:
        raise must_be("head_patterns", "a list of patterns, such as [global, window: 2, forward, backward]", settings)
    return [_pattern(entry) for entry in settings]


def are_by_layer(settings: Any) -> bool:
    """Return whether patterns of a configuration are a list for each layer: `[[global], [window: 8, global]]`."""
    return (
        isinstance(settings, list | tuple)
        and bool(settings)
        and all(isinstance(entry, list | tuple) for entry in settings)
    )


def _pattern(entry: Any) -> HeadPattern:
    name, width = next(iter(entry.items())) if isinstance(entry, Mapping) and len(entry) == 1 else (entry, None)
    if not isinstance(name, str) or name not in NAMES:
        raise OptionError(
            "head_patterns", f"unknown pattern of a head {name!r}; {hint(str(name), NAMES, 'head_patterns')}"
        )
    if name in WITH_WIDTH:
        least, measure = (0, "width") if name == "window" else (1, "size")
        pair: Any = width if name == "ends" and isinstance(width, list | tuple) and len(width) == 2 else (width, 1)
        size, last = pair
        if not _is_whole(size, least) or not _is_whole(last, 1) or last > size > 0:
            also = ", or a size and a number up to it, as in `ends: [8, 2]`" if name == "ends" else ""
            raise must_be(
                f"{name} of head_patterns", f"a {measure} of at least {least}, as in `{name}: 2`{also}", width
            )
        return HeadPattern(name, size, last)
    if width is not None:
        raise OptionError("head_patterns", f"pattern {name} has no width; give the name alone")
    return HeadPattern(name)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
