"""Luna: linear unified nested attention.

Ma et al. 2021, "Luna: Linear Unified Nested Attention". A sequence P of R rows packs the context, and the queries
attend to the packed rows; the equations, numbered there, are in `functional/luna.py`.

    Y_P = Attn(P, C),    Y_X = Attn(X, Y_P)                                                   (1), (2)
    P of the next layer = LayerNorm(P + Y_P)                  contextual P                    (6)
    P of the first layer = sqrt(M) W + sinusoids,  W ~ N(0, 1/M) initially                    (7)

The context C is projected by `linear_k` and `linear_v` of the attention, the queries X by `linear_q`, and `linear_out`
projects Y_X; P and Y_P have separate projections here. In an encoder, P goes from layer to layer in `Heads.stream`.
Only X passes through the other parts of a layer. Row i of P is used for contexts of more than i positions, as released.

With `handed_over` the P that the encoder's last layer makes by (6) precedes the frames of its output, cross-attention
of the first decoder layer has it instead of (7), and each layer of the decoder hands its own on by (6). As P of a
decoder layer depends on the source alone, a search makes it once and keeps `linear_p` of it among the cached keys.

Causal self-attention is (3)-(5). Here each layer has its own P, `linear_k` and `linear_v` make k and v of (4) and (5),
and the context of (3) has a separate projection. A cache holds w of (3) for each key besides k and v; a step then
equals the row of the full pass, and hypotheses with different keys can be decoded side by side. In cross-attention with
a cache the context is packed again at each step.

Softmax-equivalent setting: none, because all queries see the context through R rows.
Cost: O(T R M) time and O(T R) memory; R M parameters for P, and for projections M^2 more than softmax attention has
with tied keys and values, else 3 M^2 (causal: 2 M^2). The causal form takes O(T (R + b) M) time and O(T (R + b)) memory
with blocks of b positions; a cached step takes O(T (M + H R)), for R = D about twice the time of softmax.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads, KVCache, Stream
from espnet_diverse.attention.supports import Supports
from espnet_diverse.functional.fused_attention import fused_attention
from espnet_diverse.functional.luna import (
    causal_attention,
    masked_attention,
    nested_attention,
    pack,
    pattern,
)
from espnet_diverse.functional.position import sinusoids
from espnet_diverse.functional.precision import linear_in_full_precision
from espnet_diverse.option_checks import flag, number


@dataclass(frozen=True)
class LunaOptions(Core.Options):
    """Options of Luna.

    Attributes:
        length: Number of rows R of P.
        pack_heads: Number of heads of the pack attention (1); 0 means as many as the unpack attention has.
        tied: Whether the values are the keys in both attentions (released), or have separate projections.
        contextual: Whether the layers of an encoder pass on P (6). Otherwise all start from the shared P of (7).
            In decoders each layer has its own P, except with `handed_over`.
        packed_dropout: Dropout rate of Y_P in (6).
        handed_over: Whether cross-attention starts from the last P of the encoder; to be set in both the encoder's
            attention and the decoder's cross-attention, for translation of text.
    """

    length: int = number(16, least=1)
    pack_heads: int = number(0, least=0)
    tied: bool = flag(True)
    contextual: bool = flag(True)
    packed_dropout: float = number(0.1, least=0, below=1)
    handed_over: bool = flag(False)


class FirstRows(nn.Module):
    """P of the first layer (7), learned.

    Args:
        length: Number of rows R.
        size: Model width M.
    """

    positions: Tensor

    def __init__(self, length: int, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, size))
        self.register_buffer("positions", sinusoids(torch.arange(length), size).float(), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W of (7)."""
        nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def forward(self) -> Tensor:
        """Return P (1, R, M)."""
        return (self.weight * self.weight.size(1) ** 0.5 + self.positions).unsqueeze(0)


class Luna(Core):
    """Nested attention through the packed rows P. It has no weights over positions."""

    Options = LunaOptions
    options: LunaOptions
    supports = Supports(causal=True, cached_decoding=True, cross_attention=True, half_precision=True)
    linear = True

    def build(self) -> None:
        option = self.options
        self.tied = "values" if option.tied else ""
        self.pack_heads = option.pack_heads or self.heads
        self._check_heads(self.size)
        self._check_handed_over(self.cross)
        self.state_rows = option.length if option.handed_over else 0
        self.of_source = self.cross and option.handed_over
        if not self.of_source:
            self.first = FirstRows(option.length, self.size)
        self.norm: nn.LayerNorm | None = None  # of (6), in all layers whose P another layer reads
        self.linear_p = nn.Linear(self.size, self.size)
        if self.causal:
            self.supports = replace(type(self).supports, half_precision=False)  # running sums
            self.linear_context = nn.Linear(self.size, self.size)
        else:
            self.linear_packed_k = nn.Linear(self.size, self.size)
            self.linear_packed_v = self.linear_packed_k if option.tied else nn.Linear(self.size, self.size)

    def connect(self, cores: Sequence[Core]) -> bool:
        """Share the first P among the layers, and let them hand on P (6) if it is contextual."""
        luna = [core for core in cores if isinstance(core, Luna)]
        for core in () if self.of_source else luna[1:]:
            core.first = self.first
        read = luna if self.state_rows and not self.of_source else luna[:-1]
        for core in read if self.options.contextual else ():
            core.norm = nn.LayerNorm(self.heads * self.width)
        return self.options.contextual

    def cache(self, key: Tensor, k: Tensor, v: Tensor) -> KVCache:
        """Return what a cache holds; with `handed_over`, `linear_p` of P replaces its keys."""
        if not self.of_source:
            return super().cache(key, k, v)
        rows, frames = key[:, : self.state_rows], k[:, :, self.state_rows :]
        return KVCache(torch.cat([_split(self.linear_p(rows), self.heads), frames], 2), v, None)

    def next_source(self, source: Tensor, cache: KVCache, mask: Tensor | None) -> Tensor:
        """Replace P, the first rows of the source, by the P of the next layer (6)."""
        if not self.of_source or self.norm is None:
            return source
        p, k, v, valid = self._of_source(cache.k, cache.v, mask)
        packed, _ = pack(self._regroup(p), [(self._regroup(k), self._regroup(v), valid)])
        rows, frames = source.tensor_split([self.state_rows], 1)
        return torch.cat([self.norm(rows + packed), frames], 1)

    def key_features(self, key: Tensor, k: Tensor) -> Tensor | None:
        """Compute w (3) of cached keys in causal self-attention: (B, T, M) -> (B, H, T, R); otherwise None."""
        return self._pattern(key) if self.causal else None

    def reduce_keys(
        self, parts: Iterable[tuple[KVCache, Tensor | None]], stream: Stream
    ) -> Callable[[Tensor], Tensor] | None:
        """Pack all keys (1); queries read the packed rows (2). The causal form has no summary."""
        if self.causal:
            return None
        rows = self._rows(stream)
        keys = ((self._regroup(kv.k), self._regroup(kv.v), valid) for kv, valid in parts)
        packed, count = pack(_split(self.linear_p(rows), self.pack_heads), keys)
        self._hand_on(rows, packed, stream)
        k, v = self._packed_keys(packed)
        used = self._used(count, count.device)
        return lambda q: fused_attention(q, k, v, used)

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, Tq, D)."""
        return self._causal(heads) if self.causal else self._nested(heads), None

    def _nested(self, heads: Heads) -> Tensor:
        """Equations (1), (2) and (6)."""
        valid = None if heads.mask is None else heads.mask.any(dim=-2, keepdim=True)  # of the keys, by any query
        rows, k, v, p = self._rows(heads.stream), heads.k, heads.v, None
        if self.of_source:
            p, k, v, valid = self._of_source(k, v, valid)
            if heads.perturbed is not None:  # otherwise p comes from a cache
                rows, p = heads.key[:, : self.state_rows] if rows is None else rows, None
        p = _split(self.linear_p(rows), self.pack_heads) if p is None else self._regroup(p)
        p, k, v = p.expand(heads.q.size(0), -1, -1, -1), self._regroup(k), self._regroup(v)

        def unpack(packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return heads.q, *self._packed_keys(packed)

        positions = k.size(-2) if valid is None else valid.sum(-1, keepdim=True)
        used = None if valid is None and positions >= self.options.length else self._used(positions, k.device)
        context, packed = nested_attention(p, k, v, unpack, valid, used, heads.dropout)
        self._hand_on(rows, packed, heads.stream)
        return context

    def _rows(self, stream: Stream | None) -> Tensor | None:
        """Return P of this layer, (1 or B, R, M); None where it precedes the frames of the source."""
        if stream is not None and stream.state is not None:
            return stream.state
        return None if self.of_source else self.first()

    def _of_source(self, k: Tensor, v: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Divide P and frames: k, v (B, H, R + T, D), valid (..., R + T) -> p (B, H, R, D), k, v, valid of frames."""
        p, k = k.tensor_split([self.state_rows], 2)
        return p, k, v[:, :, self.state_rows :], None if valid is None else valid[..., self.state_rows :]

    def _packed_keys(self, packed: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, R, D) of (2)."""
        return _split(self.linear_packed_k(packed), self.heads), _split(self.linear_packed_v(packed), self.heads)

    def _hand_on(self, rows: Tensor | None, packed: Tensor, stream: Stream | None) -> None:
        """Equation (6)."""
        if self.norm is not None and stream is not None and rows is not None:
            stream.state = self.norm(rows + F.dropout(packed, self.options.packed_dropout, self.training))

    def _causal(self, heads: Heads) -> Tensor:
        """Equations (3) to (5)."""
        w = self._pattern(heads.key) if heads.key_features is None else heads.key_features
        inputs = heads.q, heads.k, heads.v, w
        if heads.key_features is None and heads.mask is not None and heads.q.size(-2) == heads.k.size(-2):
            # A full pass, whose mask is causal and also marks padding: keys that no query sees.
            return causal_attention(*inputs, heads.mask.any(dim=-2), heads.dropout)
        return masked_attention(*inputs, heads.mask, heads.dropout)

    def _pattern(self, key: Tensor) -> Tensor:
        """Equation (3): inputs of the keys (B, T, M) -> w (B, H, T, R)."""
        with torch.autocast(key.device.type, enabled=False):
            p, context = (
                linear_in_full_precision(*args) for args in ((self.linear_p, self.first()), (self.linear_context, key))
            )
            return pattern(_split(p, self.heads), _split(context, self.heads))

    def _used(self, positions: int | Tensor, device: torch.device) -> Tensor:
        """Return which rows of P take part, (B or 1, 1, 1, R): no more than there are positions."""
        return torch.arange(self.options.length, device=device).view(1, 1, 1, -1) < positions

    def _regroup(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, H_p, T, D_p): the heads of the pack attention."""
        return x if self.pack_heads == self.heads else _split(x.transpose(1, 2).flatten(2), self.pack_heads)

    def _check_heads(self, size: int) -> None:
        if size % self.pack_heads:
            raise ValueError(f"width {size} is not a multiple of {self.pack_heads} pack_heads; choose a divisor, or 0")
        if self.causal and self.pack_heads != self.heads:
            raise ValueError(
                f"causal attention with {self.heads} heads cannot have {self.pack_heads} pack_heads; give as many, or 0"
            )

    def _check_handed_over(self, cross: bool) -> None:
        if self.options.handed_over and self.causal:
            raise ValueError("causal self-attention has a P of its own; leave out handed_over")
        if self.options.handed_over and not cross and not self.options.contextual:
            raise ValueError("handed_over needs an encoder whose layers hand on P; set contextual: true")


def _split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, T, M) -> (B, H, T, D)
