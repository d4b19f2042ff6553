"""Multi-head attention: project, split into heads, let the core attend, merge the heads, project.

Vaswani et al. 2017, "Attention is all you need", section 3.2; relative position after Dai et al. 2019,
"Transformer-XL", section 3.3, in ESPnet's bidirectional form.

The call `(query, key, value, [pos_emb,] mask)` and the parameter names match ESPnet's `MultiHeadedAttention`, so the
module fits wherever ESPnet uses its own and loads its checkpoints.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.attention.cached_attention import CachedAttention, bool_mask
from espnet_diverse.attention.core import Inputs, Stream
from espnet_diverse.attention.parts import by_parts, is_long, slices
from espnet_diverse.attention.selection.head_gather import SelectedHeads
from espnet_diverse.functional.selection import credit
from espnet_diverse.scope import current, scope


class MultiHeadAttention(CachedAttention):
    """Multi-head attention around a core; its arguments and attributes are those of `HeadProjections`."""

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
            ValueError: The input is longer than the core supports, or causal attention has no causal mask.
        """
        pos_emb, stream, allowed = self._read(rest)
        self._check(query, key, allowed)
        if (out := self._in_parts(query, key, value, pos_emb, allowed, stream)) is not None:
            return out
        inputs = self.core.compress(self.core.perturb(query, key, value), allowed)
        selected, keep = self._select(len(query)), self._keeps_weights()
        loss = self.disagreement if current().collect else None
        fields: dict[str, Any] = {"query": query, "key": key, "perturbed": inputs, "mask": allowed, "stream": stream}
        unselected = [self._unselected(other, inputs, pos_emb, fields) for other in selected.rest]
        fields["dropout"] = self.dropout_rate if self.training else 0.0
        fields["need_weights"] = keep or (loss is not None and loss.of_weights)
        heads = self._project(selected, inputs, pos_emb, fields, same=expand_kv)
        context, weights = self._attend(heads)
        for other, of_other in zip(selected.rest, unselected, strict=True):
            context = credit(context, other.samples().expand(len(query), -1), of_other)
        if loss is not None:
            loss.add_loss(heads, context, weights, self._projections())
        self.attn = weights.detach() if keep and weights is not None else None  # so that the module can be copied
        return self._merge(self._change(heads, context), selected)

    def _read(self, rest: Sequence[Tensor | Stream | None]) -> tuple[Tensor | Stream | None, Stream, Tensor | None]:
        """Return the relative position embeddings, the stream, and the mask (B, 1, 1 or Tq, Tk)."""
        pos_emb, mask = rest if self.relative else (None, *(rest or [None]))
        stream = mask if isinstance(mask, Stream) else Stream(mask)
        return pos_emb, stream, None if stream.mask is None else current().once(bool_mask, stream.mask)

    def _check(self, query: Tensor, key: Tensor, mask: Tensor | None) -> None:
        self.check_length(query.size(1), key.size(1))
        if self.core.causal and query.size(1) > 1 and (mask is None or mask.size(-2) == 1):
            raise ValueError(
                f"causal attention {self.core.name!r} needs a mask (B, T, T) that excludes later positions; without it "
                "queries would see them"
            )

    def _in_parts(
        self,
        x: Tensor,
        key: Tensor,
        value: Tensor,
        pos_emb: Tensor | Stream | None,
        mask: Tensor | None,
        stream: Stream,
    ) -> Tensor | None:
        """Attend from a long sequence x (B, T, M) to itself, part by part, or return None where the whole is needed."""
        if x is not key or key is not value or torch.is_grad_enabled():
            return None
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
            chunk, allowed = x[:, near], masked(near)
            length = chunk.size(1)
            position = [pos_emb[:, time - length : time + length - 1]] if isinstance(pos_emb, Tensor) else []
            return self(chunk, chunk, chunk, *position, None if allowed is None else allowed.squeeze(1))

        if reach is not None:
            return by_parts(attend, time, reach)
        read = self.core.reduce_keys(((self.cache_kv(x[:, part]), masked(part)) for part in slices(time)), stream)
        return None if read is None else by_parts(lambda part: self._merge(read(self.project_query(x[:, part]))), time)

    @torch.no_grad()
    def _unselected(
        self, selected: SelectedHeads, inputs: Inputs, pos_emb: Tensor | Stream | None, fields: dict[str, Any]
    ) -> Tensor:
        """Compute the context of heads that were not selected, as in evaluation, for the gradients of their samples."""
        stream = copy.copy(fields["stream"])  # the layers hand on the state of the selected heads
        heads = self._project(selected, inputs, pos_emb, fields | {"stream": stream}, values=False)
        mode = self.core.training
        self.core.eval()
        try:
            with scope(current().conditions, collect=False):
                return self._attend(heads)[0]
        finally:
            self.core.train(mode)

    def _keeps_weights(self) -> bool:
        return (current().keep_attention or bool(self._forward_hooks)) and self.core.supports.explicit_weights
