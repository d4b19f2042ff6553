"""Projections of multi-head attention: inputs into heads, and the contexts of the heads into an output.

The parameter names match ESPnet's `MultiHeadedAttention`, whose checkpoints therefore load.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads, Inputs, Stream
from espnet_diverse.attention.head_patterns import HeadPatterns
from espnet_diverse.attention.modifiers.disagreement import Disagreement
from espnet_diverse.attention.modifiers.position import TransformerXLPosition
from espnet_diverse.attention.modifiers.query_key_norm import QueryKeyNormOptions, ScaledQueries, UnitKeys
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.attention.selection.head_gather import AllHeads, zero_of
from espnet_diverse.attention.selection.head_selection import HeadSelection
from espnet_diverse.attention.uncompiled import Uncompiled


class HeadProjections(Uncompiled):
    """The parameters of multi-head attention, and its steps before and after the core.

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
        self.linear_k = self.linear_q if core.tied == "keys" else nn.Linear(size, pool * self.d_k)
        self.linear_v = self.linear_k if core.tied == "values" else nn.Linear(size, pool * self.d_k)
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

    @property
    def linear(self) -> bool:
        """Whether self-attention over T positions takes O(T) time and memory."""
        return self.core.linear or (self.core.by_pattern and self.patterns is not None and self.patterns.linear)

    def head_weights(self) -> Mapping[str, Tensor]:
        """Weights whose rows belong to one head of the pool after another, by projection; tied ones have none."""
        names = {linear: name for name, linear in (("v", self.linear_v), ("k", self.linear_k), ("q", self.linear_q))}
        return {names[linear]: linear.weight for linear in self._projections()}

    def check_length(self, *lengths: int) -> None:
        """Check numbers of queries or keys.

        Raises:
            ValueError: The core does not support that many.
        """
        self.core.supports.check_length(self.core.name, *lengths)

    def _select(self, batch: int) -> AllHeads:
        return self.selection(batch) if self.selection else AllHeads(self.h)

    def _project(
        self,
        selected: AllHeads,
        inputs: Inputs,
        pos_emb: Tensor | Stream | None,
        fields: Mapping[str, Any],
        values: bool = True,
        same: bool = False,
    ) -> Heads:
        """Project queries, keys and values, and return them with patterns and position term.

        Args:
            selected: The heads that each sample attends with.
            inputs: What is projected.
            pos_emb: Relative position embeddings if the module has relative position.
            fields: The other fields of the heads.
            values: Whether the values have the weights of the selected heads.
            same: Whether keys and values are the same in every sample.
        """
        patterns = None if self.patterns is None else selected.patterns(self.patterns)
        batch = inputs.query.size(0)
        if same and selected.alike:
            inputs = Inputs(inputs.query, inputs.key[:1], inputs.value[:1])
        if self.core.only_logits and isinstance(patterns, HeadPatterns) and patterns.one_key:
            (v,) = selected.project((self.linear_v,), inputs[2:], values=values)
            zero = zero_of((self.linear_q, self.linear_k, self.q_norm, self.k_norm), inputs.query).to(v)
            q, k = (zero.expand(*v.shape[:2], x.size(1), v.size(3)) for x in inputs[:2])
        else:
            q, k, v = selected.project((self.linear_q, self.linear_k, self.linear_v), inputs, values=values)
            q, k = self.q_norm(q), self.k_norm(k)
        raw_q = q
        if isinstance(pos_emb, Tensor):  # terms (b) and (d) of Dai et al. section 3.3
            q = raw_q + selected.rows(self.pos_bias_u).unsqueeze(-2)
            p = selected.project_positions(self.linear_pos, pos_emb)  # (1 or B, H, 2T-1 or T, D)
            term = PositionTerm(raw_q + selected.rows(self.pos_bias_v).unsqueeze(-2), p)
            in_parts = self.core.position_in_parts or (patterns is not None and self.core.by_pattern)
            position = {"position_term": term} if in_parts else {"position": term.matrix()}
            fields = {**fields, **position}
        k, v = (x.expand(batch, -1, -1, -1) for x in (k, v))
        return Heads(q, k, v, raw_q=raw_q, patterns=patterns, **fields)

    def _projections(self) -> Sequence[nn.Linear]:
        """The projections of queries, keys and values, each once."""
        return tuple(dict.fromkeys((self.linear_q, self.linear_k, self.linear_v)))

    def _merge(self, context: Tensor, selected: AllHeads | None = None) -> Tensor:
        if self.head_mask is not None:
            mask = self.head_mask.to(context.device)
            retained = (selected or self._select(len(context))).rows(mask)  # (1 or B, H)
            context = context.masked_fill(~retained[..., None, None], 0.0)
        return self.linear_out(context.transpose(1, 2).reshape(context.size(0), -1, self.h * self.d_k))
