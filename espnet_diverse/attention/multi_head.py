"""The shell of every attention: project, split into heads, let the core attend, merge, project.

Vaswani et al. 2017, "Attention is all you need", section 3.2; relative position after Dai et al. 2019,
"Transformer-XL", section 3.3, in ESPnet's bidirectional form.

The call `(query, key, value, [pos_emb,] mask)` and the parameter names are those of ESPnet's `MultiHeadedAttention`,
so the shell stands wherever ESPnet puts its own and loads its checkpoints.
"""

import copy
import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.attention.head_gather import AllHeads
from espnet_diverse.scope import current


@dataclass
class Heads:
    """What a core attends with.

    Attributes:
        q, k, v: Projected queries (B, H, Tq, D), keys and values (B, H, Tk, D). `q` holds the content bias of relative
            position where there is one.
        query, key: The inputs before projection, (B, Tq, M) and (B, Tk, M); the same object in self-attention.
        noisy_query, noisy_key: What was projected, the inputs after the core's `perturb`.
        raw_q: Queries without any position bias, (B, H, Tq, D).
        mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk), or None.
        position: Position term of the logits before scaling, (B, H, Tq, Tk), or None.
        dropout: Rate at which attention weights are dropped; 0 at evaluation.
        need_weights: Whether the core must return its weights.
        summary: What the core's `summarise` said of the keys when they were remembered, (B, H, Tk, C); then `key` and
            `noisy_key` are not at hand and hold the query. None where nothing was remembered.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    query: Tensor
    key: Tensor
    noisy_query: Tensor
    noisy_key: Tensor
    raw_q: Tensor
    mask: Tensor | None = None
    position: Tensor | None = None
    dropout: float = 0.0
    need_weights: bool = False
    summary: Tensor | None = None

    def scores(self) -> Tensor:
        """Scaled logits (B, H, Tq, Tk), in ESPnet's order of operations so that equal inputs give equal bits."""
        logits = torch.matmul(self.q, self.k.transpose(-2, -1))
        if self.position is not None:
            logits = logits + self.position
        return logits / math.sqrt(self.q.size(-1))

    def in_full_precision(self) -> "Heads":
        """The same in float32; what is one object stays one, because self-attention is known by that."""
        tensors = {name: value for name, value in vars(self).items() if torch.is_tensor(value) and name != "mask"}
        converted = {id(value): value.float() for value in tensors.values()}
        return dataclasses.replace(self, **{name: converted[id(value)] for name, value in tensors.items()})

    def scaled_position(self) -> Tensor | None:
        """The position term on the scale of `scores()`."""
        return None if self.position is None else self.position / math.sqrt(self.q.size(-1))


class Memory(NamedTuple):
    """Keys that were projected once, for queries to come: keys and values (B, H, T, D), and the core's summary of what
    they were projected from, (B, H, T, C), or None for a core that needs none."""

    k: Tensor
    v: Tensor
    summary: Tensor | None


class Core(nn.Module):
    """How queries, keys and values become context: the part in which the methods differ.

    Args:
        size: Model width M.
        heads: Number of heads H.
        options: The core's options; their defaults where None.
        cross: Whether keys come from another sequence than queries, for cores with parameters for either side.
        causal: Whether no query attends to later keys, for cores that evaluate such self-attention differently.

    Attributes:
        full_precision: Whether the core computes in float32 under autocast to half precision.
    """

    full_precision = False

    @dataclass(frozen=True)
    class Options:
        """Options of the core, the keys of its `attention:` section besides `core` and `preset`."""

        #: Bundles of options by name, which `preset` chooses from and explicit options override.
        PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(
        self,
        size: int,
        heads: int,
        options: "Core.Options | None" = None,
        cross: bool = False,
        causal: bool = False,
    ):
        super().__init__()
        self.causal = causal
        self.heads = heads
        self.width = size // heads
        self.options = options or self.Options()

    def perturb(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Change the inputs before projection (sampling noise); the identity unless a core overrides it."""
        return query, key, value

    def summarise(self, key: Tensor) -> Tensor | None:
        """What the core must know of keys (B, T, M) besides their projections, at evaluation: (B, H, T, C) or None."""
        return None

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Return context (B, H, Tq, D), and weights (B, H, Tq, Tk) where `heads.need_weights`."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(self.options).items())


class MultiHeadAttention(nn.Module):
    """Multi-head attention with an exchangeable core.

    Args:
        size: Model width M.
        heads: Number of heads H; divides `size`.
        core: The core; it sees H heads of width M / H.
        dropout: Dropout rate of the attention weights.
        relative: Whether `forward` takes relative position embeddings before the mask.
        selection: Which heads of a pool each sample attends with, a `HeadSelection`; None: all, and the pool is H.

    Attributes:
        attn: Attention weights (B, H, Tq, Tk) of the last call, kept only in a scope with `keep_attention` or when a
            forward hook is registered (ESPnet's attention plots read `module.attn` in one).
    """

    def __init__(
        self,
        size: int,
        heads: int,
        core: Core,
        dropout: float = 0.0,
        relative: bool = False,
        selection: nn.Module | None = None,
    ):
        nn.Module.__init__(self)  # not super(): `nets` adds ESPnet's class as a second base for its type alone
        if size % heads:
            raise ValueError(f"width {size} is not a multiple of {heads} heads; choose heads that divide it")
        self.h, self.d_k = heads, size // heads
        pool = selection.pool if selection else heads
        self.linear_q = nn.Linear(size, pool * self.d_k)
        self.linear_k = nn.Linear(size, pool * self.d_k)
        self.linear_v = nn.Linear(size, pool * self.d_k)
        self.linear_out = nn.Linear(size, size)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        if relative:
            self.linear_pos = nn.Linear(size, pool * self.d_k, bias=False)
            self.pos_bias_u = nn.Parameter(torch.empty(pool, self.d_k))
            self.pos_bias_v = nn.Parameter(torch.empty(pool, self.d_k))
            nn.init.xavier_uniform_(self.pos_bias_u)
            nn.init.xavier_uniform_(self.pos_bias_v)
        self.relative = relative
        self.dropout_rate = dropout
        self.core = core
        self.selection = selection
        self.attn: Tensor | None = None

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *rest: Tensor | None, expand_kv: bool = False
    ) -> Tensor:
        """query (B, Tq, M), key and value (B, Tk, M), [pos_emb (1, 2T-1 or T, M),] mask (B, 1 or Tq, Tk) -> (B, Tq, M).

        In cached decoding the query is the last position alone while keys and values are the whole prefix.
        `expand_kv` (ESPnet's partially autoregressive decoding): keys and values are the same in every sample and are
        projected once.
        """
        pos_emb, mask = rest if self.relative else (None, *rest)
        noisy_query, noisy_key, noisy_value = self.core.perturb(query, key, value)
        chosen = self.selection(len(query)) if self.selection else AllHeads()
        once = expand_kv and chosen.alike
        q = self.q_norm(self._split(chosen.project(self.linear_q, noisy_query)))
        k = self.k_norm(self._split(chosen.project(self.linear_k, noisy_key[:1] if once else noisy_key)))
        v = self._split(chosen.project_values(self.linear_v, noisy_value[:1] if once else noisy_value))
        k, v = (x.expand(query.size(0), -1, -1, -1) for x in (k, v))
        heads = Heads(q, k, v, query, key, noisy_query, noisy_key, q, _bool_mask(mask))
        if self.relative:
            heads.q = q + chosen.rows(self.pos_bias_u).unsqueeze(-2)
            heads.position = self._position_term(q, pos_emb, chosen)
        heads.dropout = self.dropout_rate if self.training else 0.0
        heads.need_weights = current().keep_attention or bool(self._forward_hooks)
        context, self.attn = self._attend(heads)
        return self._merge(context)

    def remember(self, x: Tensor) -> Memory:
        """Project positions x (B, T, M) that are keys and values of queries to come, at evaluation."""
        chosen = self.selection(len(x)) if self.selection else AllHeads()
        k = self.k_norm(self._split(chosen.project(self.linear_k, x)))
        return Memory(k, self._split(chosen.project_values(self.linear_v, x)), self.core.summarise(x))

    def ask(self, query: Tensor) -> Tensor:
        """Project queries for `recall`, at evaluation: (B, T, M) -> (B, H, T, D)."""
        chosen = self.selection(len(query)) if self.selection else AllHeads()
        return self.q_norm(self._split(chosen.project(self.linear_q, query)))

    def project(self, x: Tensor, joint: nn.Module | None = None) -> tuple[Tensor, Memory]:
        """What `ask` and `remember` make of the same positions x (B, T, M), at evaluation.

        Args:
            joint: A map with the rows of linear_q, linear_k and linear_v, for attention without head selection.
        """
        if joint is None:
            return self.ask(x), self.remember(x)
        q, k, v = (self._split(part) for part in joint(x).chunk(3, dim=-1))
        return self.q_norm(q), Memory(self.k_norm(k), v, self.core.summarise(x))

    def recall(self, q: Tensor, query: Tensor, memory: Memory, mask: Tensor | None) -> Tensor:
        """`forward` at evaluation on remembered keys, with absolute position alone.

        q, what `ask` made of query (B, Tq, M); mask (B, 1 or Tq, Tk) -> (B, Tq, M). Each query's result depends on no
        other query, so that hypotheses that share keys may stand side by side.
        """
        heads = Heads(q, memory.k, memory.v, query, query, query, query, q, _bool_mask(mask), summary=memory.summary)
        return self._merge(self._attend(heads)[0])

    def prune(self) -> None:
        """Become plain attention with the heads of the open scope's condition; the parameters of the others are gone.

        Raises:
            ValueError: The scope has no condition, one that is unknown, or several.
        """
        if self.selection is None:
            return
        chosen = self.selection.eval()(1)
        for name in ("linear_q", "linear_k", "linear_v", "linear_pos")[: 4 if self.relative else 3]:
            setattr(self, name, chosen.pruned(getattr(self, name)))
        for name in ("pos_bias_u", "pos_bias_v")[: 2 if self.relative else 0]:
            setattr(self, name, nn.Parameter(chosen.rows(getattr(self, name))[0].detach()))
        self.selection = None

    def pruned(self) -> "MultiHeadAttention":
        """What `prune` makes of this, which stays as it is; all but the projections is shared.

        Raises:
            ValueError: As of `prune`.
        """
        other = copy.copy(self)
        other._modules, other._parameters = dict(self._modules), dict(self._parameters)
        other.prune()
        return other

    def _attend(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        if not self.core.full_precision or heads.v.dtype in (torch.float32, torch.float64):
            return self.core(heads)
        with torch.autocast(heads.v.device.type, enabled=False):
            context, weights = self.core(heads.in_full_precision())
        return context.to(heads.v.dtype), weights

    def _merge(self, context: Tensor) -> Tensor:
        return self.linear_out(context.transpose(1, 2).reshape(context.size(0), -1, self.h * self.d_k))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)  # (B, T, M) -> (B, H, T, D)

    def _position_term(self, q: Tensor, pos_emb: Tensor, chosen: AllHeads) -> Tensor:
        """(q + v) R^T, shifted: terms (b) and (d) of Dai et al. section 3.3 -> (B, H, Tq, Tk)."""
        p = self._split(chosen.project_positions(self.linear_pos, pos_emb))  # (1 or B, H, 2T-1 or T, D)
        scores = torch.matmul(q + chosen.rows(self.pos_bias_v).unsqueeze(-2), p.transpose(-2, -1))
        return _relative_shift(scores)


def _relative_shift(scores: Tensor) -> Tensor:
    """Turn columns of relative distance into columns of key position.

    (B, H, T, 2T-1) -> (B, H, T, T) for distances T-1 ... -(T-1); ESPnet's older encoders give T columns, kept as T.
    """
    batch, heads, time, columns = scores.shape
    padded = torch.cat([scores.new_zeros(batch, heads, time, 1), scores], dim=-1)
    shifted = padded.view(batch, heads, columns + 1, time)[:, :, 1:].reshape(batch, heads, time, columns)
    return shifted if columns == time else shifted[..., : columns // 2 + 1]


def _bool_mask(mask: Tensor | None) -> Tensor | None:
    """ESPnet's (B, 1 or Tq, Tk) mask, True = may attend -> (B, 1, 1 or Tq, Tk) bool."""
    if mask is None:
        return None
    return (mask if mask.dtype == torch.bool else mask.ne(0)).unsqueeze(1)
