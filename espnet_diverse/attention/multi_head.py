"""Multi-head attention: project, split into heads, let the core attend, merge the heads, project.

Vaswani et al. 2017, "Attention is all you need", section 3.2; relative position after Dai et al. 2019,
"Transformer-XL", section 3.3, in ESPnet's bidirectional form.

The call `(query, key, value, [pos_emb,] mask)` and the parameter names match ESPnet's `MultiHeadedAttention`, so the
module fits wherever ESPnet uses its own and loads its checkpoints.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads, Inputs, KVCache, Stream
from espnet_diverse.attention.head_patterns import HeadPatterns
from espnet_diverse.attention.modifiers.disagreement import Disagreement
from espnet_diverse.attention.modifiers.position import POSITIONS, TransformerXLPosition, with_position
from espnet_diverse.attention.modifiers.query_key_norm import QueryKeyNormOptions, ScaledQueries, UnitKeys
from espnet_diverse.attention.parts import by_parts, is_long, slices
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.attention.selection.head_gather import AllHeads, SelectedHeads, split_heads, zero_of
from espnet_diverse.attention.selection.head_selection import HeadSelection
from espnet_diverse.attention.uncompiled import Uncompiled
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.running_sums import Sums
from espnet_diverse.functional.selection import credit
from espnet_diverse.scope import current, scope


class MultiHeadAttention(Uncompiled):
    """Multi-head attention around a core.

    Args:
        size: Model width M.
        heads: Number of heads H; divides `size`.
        core: The core, which attends with H heads of width M / H.
        dropout: Dropout rate of the attention weights.
        position: "relative" if `forward` takes relative position embeddings before the mask; one of
            `position.POSITIONS`; or "absolute", where the inputs hold the positions.
        selection: A `HeadSelection`, which selects H heads of a larger pool for each sample. With None the pool is the
            H heads.
        disagreement: A `Disagreement`, which adds a loss for heads that are alike, or None.
        qk_norm: Options of normalised queries and keys, or None to attend with them as they are projected.
        patterns: Pattern of allowed keys of each head of the pool, or None.
        changes: Modules that change the outputs of heads, see `regularisers`, `head_routing` and
            `differential_extension` in `modifiers`.

    Attributes:
        attn: Attention weights (B, H, Tq, Tk) of the last call, without gradients. They are kept only in a scope with
            `keep_attention`, or when a forward hook is registered (ESPnet's attention plots read `module.attn` in
            one), and only if the core supports explicit weights; otherwise None.
        head_mask: Heads that take part, bool (P,), True = takes part, or None (all). The context of the others is 0
            before the output projection, with and without a cache (Michel et al. 2019, "Are sixteen heads really better
            than one?", section 3). It is not part of the state dict.

    Raises:
        ValueError: `heads` does not divide `size`.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        core: Core,
        dropout: float = 0.0,
        position: str = "absolute",
        selection: HeadSelection | None = None,
        disagreement: Disagreement | None = None,
        qk_norm: QueryKeyNormOptions | None = None,
        patterns: HeadPatterns | None = None,
        changes: Sequence[nn.Module] = (),
    ):
        nn.Module.__init__(self)  # not super(): `nets` adds ESPnet's class as a second base for its type alone
        if size % heads:
            raise ValueError(f"width {size} is not a multiple of {heads} heads; choose heads that divide it")
        self.h, self.d_k = heads, size // heads
        pool = selection.pool if selection else heads
        self.linear_q = nn.Linear(size, pool * self.d_k)
        self.linear_k = nn.Linear(size, pool * self.d_k)
        self.linear_v = self.linear_k if core.tied else nn.Linear(size, pool * self.d_k)
        self.linear_out = nn.Linear(size, size)
        self.q_norm = ScaledQueries(heads, qk_norm) if qk_norm else nn.Identity()
        self.k_norm = UnitKeys() if qk_norm else nn.Identity()
        self.position, self.relative = position, position == "relative"
        if self.relative:
            self.linear_pos = nn.Linear(size, pool * self.d_k, bias=False)
            self.pos_bias_u = nn.Parameter(torch.empty(pool, self.d_k))
            self.pos_bias_v = nn.Parameter(torch.empty(pool, self.d_k))
            nn.init.xavier_uniform_(self.pos_bias_u)
            nn.init.xavier_uniform_(self.pos_bias_v)
        if position == "transformer_xl":
            self.distances = TransformerXLPosition(size, heads)
        self.dropout_rate = dropout
        self.core = core
        self.selection = selection
        self.disagreement = disagreement
        self.patterns = patterns
        self.changes = nn.ModuleList(changes)
        self.attn: Tensor | None = None
        self.head_mask: Tensor | None = None

    @property
    def pool(self) -> int:
        """Number of heads P that `linear_q`, `linear_k` and `linear_v` have; without head selection H."""
        return self.selection.pool if self.selection else self.h

    def head_weights(self) -> Mapping[str, Tensor]:
        """Weights whose rows belong to one head of the pool after another, by projection; tied values have none."""
        return {name: linear.weight for name, linear in zip("qkv", self._projections(), strict=False)}

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *rest: Tensor | Stream | None, expand_kv: bool = False
    ) -> Tensor:
        """query (B, Tq, M), key and value (B, Tk, M), [pos_emb (1, 2T-1 or T, M),] mask (B, 1 or Tq, Tk) -> (B, Tq, M).

        In ESPnet's cached decoding the query is the last position alone, and keys and values are the whole prefix.

        Args:
            query: Input of the queries.
            key: Input of the keys; in self-attention the same object as `query`.
            value: Input of the values.
            rest: Relative position embeddings if the module has relative position, and the mask, True = may attend, or
                a `Stream` with the mask, or nothing.
            expand_kv: Keys and values are the same in every sample and are projected once (ESPnet's partially
                autoregressive decoding).

        Raises:
            ValueError: The input is longer than the core supports.
        """
        pos_emb, mask = rest if self.relative else (None, *(rest or [None]))
        self.check_length(query.size(1), key.size(1))
        stream = mask if isinstance(mask, Stream) else Stream(mask)
        allowed = None if stream.mask is None else current().once(_bool_mask, stream.mask)
        if query is key and key is value and not torch.is_grad_enabled():
            out = self._in_parts(query, pos_emb, allowed, stream)
            if out is not None:
                return out
        if self.core.causal and query.size(1) > 1 and (allowed is None or allowed.size(-2) == 1):
            raise ValueError(
                f"causal attention {self.core.name!r} needs a mask (B, T, T) that excludes later positions; without it "
                "queries would see them"
            )
        inputs = self.core.compress(self.core.perturb(query, key, value), allowed)
        selected = self._select(len(query))
        once = expand_kv and selected.alike
        projected = Inputs(inputs.query, inputs.key[:1], inputs.value[:1]) if once else inputs
        # `_project` sets q, k, v and raw_q, which are the inputs until then.
        heads = Heads(query, key, value, query, key, raw_q=query, perturbed=inputs, mask=allowed, stream=stream)
        unselected = [self._unselected(other, copy.copy(heads), inputs, pos_emb) for other in selected.rest]
        self._project(heads, selected, projected, pos_emb)
        heads.dropout = self.dropout_rate if self.training else 0.0
        kept = self._keeps_weights()
        disagreement = self.disagreement if current().collect else None
        heads.need_weights = kept or (disagreement is not None and disagreement.of_weights)
        context, weights = self._attend(heads)
        for other, of_other in zip(selected.rest, unselected, strict=True):
            context = credit(context, other.samples().expand(len(query), -1), of_other)
        if disagreement is not None:
            disagreement.add_loss(heads, context, weights, self._projections())
        context = self._changed(heads, context)
        self.attn = weights.detach() if kept and weights is not None else None  # so that the module can be copied
        return self._merge(context, selected)

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
        allowed = None if stream.mask is None else _bool_mask(stream.mask)
        kept: dict[str, Any] = {"key_features": cache.features, "sums": cache.sums}
        heads = Heads(q, cache.k, cache.v, query, key=query, raw_q=q, mask=allowed, stream=stream, **kept)
        heads.patterns = None if self.patterns is None else self._select(len(query)).patterns(self.patterns)
        context, self.attn = self._attend(heads)
        return self._merge(self._changed(heads, context))

    def sum_up(self, cache: KVCache, seen: Tensor | None) -> Sums | None:
        """Return sums over the keys of a cache, which replace the keys, or None if the core needs them all.

        Args:
            cache: Keys and values, and sums of earlier keys, which are then part of the result.
            seen: Which keys belong to each of P prefixes, bool (B, P, T), or None: all, to one prefix. With sums of
                earlier keys there are as many prefixes as hypotheses.
        """
        seen = cache.k.new_ones(1, 1, cache.k.size(2), dtype=torch.bool) if seen is None else seen
        with torch.autocast(cache.k.device.type, enabled=False):
            return self.core.sum_up(cache.of_keys(in_full_precision), seen)

    def next_source(self, source: Tensor, cache: KVCache, mask: Tensor | None) -> Tensor:
        """Return the source (B, T, M) that the next layer reads, given this layer's source; see `Core.next_source`.

        Args:
            source: What this layer read, (B, T, M).
            cache: Its keys and values, the result of `cache_kv(source)`.
            mask: True = not padding, (B, 1, T), or None (all).
        """
        return self.core.next_source(source, cache, None if mask is None else _bool_mask(mask))

    def check_length(self, *lengths: int) -> None:
        """Check numbers of queries or keys.

        Raises:
            ValueError: The core does not support that many.
        """
        self.core.supports.check_length(self.core.name, *lengths)

    def prune(self) -> None:
        """Become attention without selection, with the heads of the open scope's condition; the others are removed.

        Raises:
            ValueError: The scope has no condition, an unknown one, or several.
        """
        if self.selection is None:
            return
        mode = self.selection.training
        try:
            selected = self.selection.eval()(1)
        finally:
            self.selection.train(mode)  # the original of a copy may still be in use
        for name in ("linear_q", "linear_k", "linear_v", "linear_pos")[: 4 if self.relative else 3]:
            setattr(self, name, selected.pruned(getattr(self, name)))
        for name in ("pos_bias_u", "pos_bias_v")[: 2 if self.relative else 0]:
            setattr(self, name, nn.Parameter(selected.rows(getattr(self, name))[0].detach()))
        if self.head_mask is not None:
            self.head_mask = selected.rows(self.head_mask.to(selected.picks.device))[0]
        if self.patterns is not None:
            self.patterns = self.patterns.of(selected.picks[0])
        self.selection = None

    def pruned(self) -> "MultiHeadAttention":
        """Return a pruned copy, see `prune`; this module stays as it is. All but the projections is shared.

        Raises:
            ValueError: The scope has no condition, an unknown one, or several.
        """
        other = copy.copy(self)
        other._modules, other._parameters = dict(self._modules), dict(self._parameters)
        other.prune()
        return other

    def _in_parts(
        self, x: Tensor, pos_emb: Tensor | Stream | None, mask: Tensor | None, stream: Stream
    ) -> Tensor | None:
        """Attend from a long sequence x (B, T, M) to itself, part by part, or return None where the whole is needed."""
        reach, time = self.core.reach, x.size(1)
        if self.training or current().collect or self._keeps_weights() or not is_long(time, reach or 0):
            return None
        if self.patterns is not None or any(change.always for change in self.changes):
            return None  # patterns depend on the position in the whole
        if mask is not None and mask.size(-2) > 1 or isinstance(pos_emb, Tensor) and pos_emb.size(1) < 2 * time - 1:
            return None  # queries with keys of their own, or the position of ESPnet's older encoders
        self.attn = None

        def masked(part: slice) -> Tensor | None:
            return None if mask is None else mask[..., part]

        def attend(near: slice) -> Tensor:
            some, allowed = x[:, near], masked(near)
            length = some.size(1)
            rest = [pos_emb[:, time - length : time + length - 1]] if isinstance(pos_emb, Tensor) else []
            return self(some, some, some, *rest, None if allowed is None else allowed.squeeze(1))

        if reach is not None:
            return by_parts(attend, time, reach)
        read = self.core.summarise(((self.cache_kv(x[:, part]), masked(part)) for part in slices(time)), stream)
        return None if read is None else by_parts(lambda part: self._merge(read(self.project_query(x[:, part]))), time)

    def _project(
        self, heads: Heads, selected: AllHeads, inputs: Inputs, pos_emb: Tensor | Stream | None, values: bool = True
    ) -> None:
        """Set queries, keys, values, patterns and position term of the heads."""
        heads.patterns = None if self.patterns is None else selected.patterns(self.patterns)
        if self.core.only_logits and isinstance(heads.patterns, HeadPatterns) and heads.patterns.one_key:
            (v,) = selected.project((self.linear_v,), inputs[2:], values=values)
            zero = zero_of((self.linear_q, self.linear_k, self.q_norm, self.k_norm)).to(v.dtype)
            q, k = (zero.expand(*v.shape[:2], x.size(1), v.size(3)) for x in inputs[:2])
        else:
            q, k, v = selected.project((self.linear_q, self.linear_k, self.linear_v), inputs, values=values)
            q, k = self.q_norm(q), self.k_norm(k)
        heads.k, heads.v = (x.expand(heads.query.size(0), -1, -1, -1) for x in (k, v))
        heads.q = heads.raw_q = q
        if isinstance(pos_emb, Tensor):
            heads.q = q + selected.rows(self.pos_bias_u).unsqueeze(-2)
            term = self._position_term(q, pos_emb, selected)
            if self.core.position_in_parts:
                heads.position_term = term
            else:
                heads.position = term.matrix()

    @torch.no_grad()
    def _unselected(
        self, selected: SelectedHeads, heads: Heads, inputs: Inputs, pos_emb: Tensor | Stream | None
    ) -> Tensor:
        """Compute the context of heads that were not selected, as in evaluation, for the gradients of their samples."""
        heads.stream = copy.copy(heads.stream)  # the layers hand on the state of the selected heads
        self._project(heads, selected, inputs, pos_emb, values=False)
        mode = self.core.training
        self.core.eval()
        try:
            with scope(current().conditions, collect=False):
                return self._attend(heads)[0]
        finally:
            self.core.train(mode)

    def _projections(self) -> Sequence[nn.Linear]:
        """The projections of queries, keys and values, each once."""
        return (self.linear_q, self.linear_k) if self.core.tied else (self.linear_q, self.linear_k, self.linear_v)

    def _keeps_weights(self) -> bool:
        return (current().keep_attention or bool(self._forward_hooks)) and self.core.supports.explicit_weights

    def _select(self, batch: int) -> AllHeads:
        return self.selection(batch) if self.selection else AllHeads(self.h)

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

    def _changed(self, heads: Heads, context: Tensor) -> Tensor:
        for change in self.changes:
            context = change(heads, context, self.linear_out.weight)
        return context

    def _merge(self, context: Tensor, selected: AllHeads | None = None) -> Tensor:
        if self.head_mask is not None:
            mask = self.head_mask.to(context.device)
            kept = (selected or self._select(len(context))).rows(mask)  # (1 or B, H)
            context = context.masked_fill(~kept[..., None, None], 0.0)
        return self.linear_out(context.transpose(1, 2).reshape(context.size(0), -1, self.h * self.d_k))

    def _position_term(self, q: Tensor, pos_emb: Tensor, selected: AllHeads) -> PositionTerm:
        """Terms (b) and (d) of Dai et al. section 3.3."""
        p = selected.project_positions(self.linear_pos, pos_emb)  # (1 or B, H, 2T-1 or T, D)
        return PositionTerm(q + selected.rows(self.pos_bias_v).unsqueeze(-2), p)


def _bool_mask(mask: Tensor) -> Tensor:
    """ESPnet's (B, 1 or Tq, Tk) mask, True = may attend -> (B, 1, 1 or Tq, Tk) bool."""
    return (mask if mask.dtype == torch.bool else mask.ne(0)).unsqueeze(1)
