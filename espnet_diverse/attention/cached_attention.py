"""Multi-head attention with cached keys and values, for decoding one position after another."""

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Heads, KVCache, Stream
from espnet_diverse.attention.head_projections import HeadProjections
from espnet_diverse.attention.modifiers.position import POSITIONS, with_position
from espnet_diverse.attention.selection.head_gather import split_heads
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.running_sums import Sums


class CachedAttention(HeadProjections):
    """Multi-head attention whose keys and values are projected once and kept."""

    def cache_kv(self, x: Tensor) -> KVCache:
        """Project keys and values of positions x (B, T, M) for later queries, in evaluation."""
        selected = self._select(len(x))
        k, v = selected.project((self.linear_k, self.linear_v), (x, x), values=True)
        return self.core.cache(x, self.k_norm(k), v)

    def project_query(self, query: Tensor) -> Tensor:
        """Project queries for `attend_cached`, in evaluation: (B, T, M) -> (B, H, T, D)."""
        return self.q_norm(*self._select(len(query)).project((self.linear_q,), (query,)))

    def project_qkv(self, x: Tensor, joint: nn.Module | None = None) -> tuple[Tensor, KVCache]:
        """Return `project_query(x)` and `cache_kv(x)` of the same positions x (B, T, M), in evaluation.

        Args:
            x: Positions that are queries, keys and values.
            joint: A linear map with the rows of linear_q, linear_k and linear_v, which replaces the three. It is for
                attention without head selection.
        """
        if joint is None:
            return self.project_query(x), self.cache_kv(x)
        q, k, v = (split_heads(part, self.h, self.d_k) for part in joint(x).chunk(3, dim=-1))
        return self.q_norm(q), self.core.cache(x, self.k_norm(k), v)

    def attend_cached(
        self, q: Tensor, query: Tensor, cache: KVCache, mask: Tensor | Stream | None, length: int | None = None
    ) -> Tensor:
        """Compute `forward` in evaluation with cached keys and absolute position -> (B, Tq, M).

        The result of a query does not depend on other queries, so hypotheses that share keys can be queries side by
        side.

        Args:
            q: Projected queries, the result of `project_query(query)`, (B, H, Tq, D).
            query: Input of the queries (B, Tq, M).
            cache: The keys and values.
            mask: True = may attend, (B, 1 or Tq, Tk), or a `Stream` with the mask.
            length: Number of positions, which is checked against the core's limit. Hypotheses side by side have several
                keys and queries for one position. By default every key and every query is a position.

        Raises:
            ValueError: There are more positions than the core supports.
        """
        self.check_length(*((q.size(2), cache.k.size(2)) if length is None else (length,)))
        stream = mask if isinstance(mask, Stream) else Stream(mask)
        heads = Heads(
            q,
            cache.k,
            cache.v,
            query,
            key=query,
            raw_q=q,
            mask=None if stream.mask is None else bool_mask(stream.mask),
            key_features=cache.features,
            stream=stream,
            patterns=None if self.patterns is None else self._select(len(query)).patterns(self.patterns),
            sums=cache.sums,
        )
        context, self.attn = self._attend(heads)
        return self._merge(self._change(heads, context))

    def accumulate(self, cache: KVCache, seen: Tensor | None) -> Sums | None:
        """Return sums over the keys of a cache, which replace the keys, or None if the core needs them all.

        Args:
            cache: Keys and values, and sums of earlier keys, which are then part of the result.
            seen: Which keys belong to each of P prefixes, bool (B, P, T), or None: all, to one prefix. With sums of
                earlier keys there are as many prefixes as hypotheses.
        """
        seen = cache.k.new_ones(1, 1, cache.k.size(2), dtype=torch.bool) if seen is None else seen
        with torch.autocast(cache.k.device.type, enabled=False):
            return self.core.accumulate(cache.of_keys(in_full_precision), seen)

    def next_source(self, source: Tensor, cache: KVCache, mask: Tensor | None) -> Tensor:
        """Return the source (B, T, M) that the next layer reads, given this layer's source; see `Core.next_source`.

        Args:
            source: What this layer read, (B, T, M).
            cache: Its keys and values, the result of `cache_kv(source)`.
            mask: True = not padding, (B, 1, T), or None (all).
        """
        return self.core.next_source(source, cache, None if mask is None else bool_mask(mask))

    def _attend(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        if self.position == "transformer_xl":
            heads = self.distances(heads, self.core.causal)
        elif self.position in POSITIONS:
            heads = with_position(heads, self.position, self.core.causal)
        if self.core.supports.half_precision or heads.v.dtype in (torch.float32, torch.float64):
            return self.core(heads)
        with torch.autocast(heads.v.device.type, enabled=False):
            context, weights = self.core(heads.in_full_precision())
        return context.to(heads.v.dtype), weights

    def _change(self, heads: Heads, context: Tensor) -> Tensor:
        # Updates are counted in training alone, and a layer that was replaced for inference may have no weight.
        watched = self.linear_out.weight if self.training else context
        for change in self.changes:
            context = change(heads, context, watched)
        return context


def bool_mask(mask: Tensor) -> Tensor:
    """ESPnet's (B, 1 or Tq, Tk) mask, True = may attend -> (B, 1, 1 or Tq, Tk) bool."""
    return (mask if mask.dtype == torch.bool else mask.ne(0)).unsqueeze(1)
