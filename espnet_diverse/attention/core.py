"""The part of multi-head attention in which methods differ: a core turns queries, keys and values into context."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from espnet_diverse import option_checks
from espnet_diverse.attention.head_patterns import HeadPatterns, SelectedPatterns, key_lengths
from espnet_diverse.attention.inspection import Inspection, Monitored
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.attention.supports import Supports
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.running_sums import Sums


class Inputs(NamedTuple):
    """Inputs of an attention: query (B, Tq, M), key and value (B, Tk, M)."""

    query: Tensor
    key: Tensor
    value: Tensor


class KVCache(NamedTuple):
    """Projected keys and values, kept for later queries.

    Attributes:
        k: Keys (B, H, T, D), or what the core needs instead of them.
        v: Values (B, H, T, D).
        features: What else the core keeps of each key, (B, H, T, R), or None.
        sums: Sums over keys that are not among `k`, see `Core.accumulate`; None if there are none.
    """

    k: Tensor
    v: Tensor
    features: Tensor | None
    sums: Sums | None = None

    def of_keys(self, function: Callable[[Tensor], Tensor]) -> "KVCache":
        """Apply `function` to all that belongs to single keys."""
        features = None if self.features is None else function(self.features)
        return KVCache(function(self.k), function(self.v), features, self.sums)

    def keep(self, rows: Tensor) -> "KVCache":
        """Keep the sequences `rows` of the batch."""
        cache = self.of_keys(lambda x: x[rows])
        return cache if self.sums is None else cache._replace(sums=self.sums.keep(rows))


@dataclass
class Stream:
    """Values that the layers of a net pass on in addition to their outputs, in one forward pass.

    Attributes:
        mask: The mask of the layers. It is the only argument that ESPnet's layers both give to their attention and
            return unchanged, so the state travels with it, and is passed explicitly like everything else.
        state: The state, which the core reads from `Heads.stream` and replaces; None before the first layer.
        query_position: In cross-attention with cached keys, the position in the target that all queries have; None if
            the queries are all positions of the target.
    """

    mask: Tensor | None = None
    state: Tensor | None = None
    query_position: int | None = None

    # What ESPnet's convolutions read from the mask to leave out padding.
    def dim(self) -> int:
        """Number of dimensions of the mask; 0 without a mask, which ESPnet ignores."""
        return 0 if self.mask is None else self.mask.dim()

    def size(self, dim: int) -> int:
        """Size of a dimension of the mask."""
        return self.mask.size(dim)  # type: ignore[union-attr]  # without a mask `dim` is 0

    def eq(self, value: bool) -> Tensor:
        """Compare the mask element by element."""
        return self.mask.eq(value)  # type: ignore[union-attr]


@dataclass
class Heads:
    """Queries, keys and values of a core, split into heads.

    Attributes:
        q: Projected queries (B, H, Tq, D), with the content bias of relative position if there is one.
        k: Projected keys (B, H, Tk, D); after `Core.compress` as many as it returned.
        v: Projected values, of the shape of `k`.
        query: Input of the queries before perturbation and projection, (B, Tq, M).
        key: Input of the keys before perturbation and projection, (B, Tk, M). In self-attention it is the same object
            as `query`. With `key_features` the input of the keys is not available, and `key` is `query`.
        raw_q: Projected queries without position bias, (B, H, Tq, D).
        perturbed: What `Core.perturb` and `Core.compress` returned; None with `key_features`.
        mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk), or None.
        position: Position term of the logits before scaling, (B, H, Tq, Tk), or None.
        position_term: With `Core.position_in_parts`, what computes parts of the position term; `position` is then None.
        dropout: Dropout rate of the attention weights, 0 in evaluation.
        need_weights: Whether the core must return its weights.
        key_features: Features of cached keys, (B, H, Tk, R), see `KVCache`; None without a cache.
        sums: Sums over keys that are not among `k` and that the queries attend to, see `KVCache`; None without a cache.
        stream: What the layers of the net hand on, see `Core.connect`.
        patterns: Patterns of the heads, which restrict the mask further, see `allowed`; None if there are none.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    query: Tensor
    key: Tensor
    raw_q: Tensor
    perturbed: Inputs | None = None
    mask: Tensor | None = None
    position: Tensor | None = None
    dropout: float = 0.0
    need_weights: bool = False
    key_features: Tensor | None = None
    stream: Stream | None = None
    position_term: PositionTerm | None = None
    patterns: HeadPatterns | SelectedPatterns | None = None
    sums: Sums | None = None

    def scores(self) -> Tensor:
        """Return the scaled logits (B, H, Tq, Tk), computed in ESPnet's order, so that equal inputs give equal bits."""
        logits = torch.matmul(self.q, self.k.transpose(-2, -1))
        if self.position is not None:
            logits = logits + self.position
        return logits / math.sqrt(self.q.size(-1))

    def scaled_position(self) -> Tensor | None:
        """Return the position term on the scale of `scores()`, (B, H, Tq, Tk), or None."""
        return None if self.position is None else self.position / math.sqrt(self.q.size(-1))

    def same_positions(self) -> bool:
        """Return whether queries and keys are the same positions in the same order: a pass over whole sequences.

        With a cache they are not: there are more keys than queries, or both belong to several hypotheses side by side.
        """
        return self.perturbed is not None and self.query is self.key and self.q.size(2) == self.k.size(2)

    def lengths(self) -> Tensor:
        """Return the lengths of the key sequences, (B,) or (1,): up to the last key that any query may attend to."""
        if self.mask is None:
            return torch.arange(1, self.k.size(2) + 1, device=self.k.device)[-1:]  # not a constant to a tracer
        return key_lengths(self.mask.expand(-1, -1, -1, self.k.size(2)))

    def positions(self, causal: bool) -> tuple[Tensor, Tensor]:
        """Return the positions of queries and keys, broadcastable to (B, 1, Tq, 1) and (B, 1, Tq, Tk).

        With a cache, the keys of several hypotheses may lie side by side in the order of their positions. Which
        position a key has for a query follows from the mask: it allows the query's own position and all before it.

        Args:
            causal: Whether the mask excludes keys after a query.
        """
        if causal and self.mask is not None and not self.same_positions():
            key = self.mask.expand(-1, -1, -1, self.k.size(2)).cumsum(-1) - 1
            return key[..., -1:], key
        key = torch.arange(self.k.size(2), device=self.k.device)
        return key[-self.q.size(2) :].unsqueeze(-1), key

    def positions_in_source(self) -> tuple[Tensor, Tensor]:
        """Return the positions of queries and keys in cross-attention, (B or 1, 1, Tq or 1, 1) and (1, 1, 1, Tk).

        Queries after the end of the source have its last position.
        """
        key = torch.arange(self.k.size(2), device=self.k.device).view(1, 1, 1, -1)
        query = torch.arange(self.q.size(2), device=self.k.device)
        if self.stream is not None and self.stream.query_position is not None:
            query = torch.full_like(query[:1], self.stream.query_position)
        return torch.minimum(query.view(1, 1, -1, 1), self.lengths().view(-1, 1, 1, 1) - 1), key

    def allowed(self) -> Tensor | None:
        """Return the pairs that attend, broadcastable to (B, H, Tq, Tk), or None (all).

        A pair attends if both `mask` and the pattern of its head allow it.
        """
        if self.patterns is None:
            return self.mask
        if self.same_positions() and self.mask is not None and self.mask.size(-1) == self.k.size(2):
            return self.patterns.shared(self.mask)
        positions = self.positions_in_source() if self.patterns.cross else self.positions(self.patterns.causal)
        return self.patterns.allowed(self.mask, *positions, self.lengths())

    def in_full_precision(self) -> "Heads":
        """Return the same in float32 or float64. Fields that share an object still do, which marks self-attention."""
        converted: dict[int, Tensor] = {}

        def convert(value: Any) -> Any:
            if isinstance(value, (Inputs, PositionTerm)):
                return type(value)(*map(convert, value))
            if not torch.is_tensor(value) or not value.is_floating_point():
                return value
            if id(value) not in converted:
                converted[id(value)] = in_full_precision(value)
            return converted[id(value)]

        return dataclasses.replace(self, **{name: convert(value) for name, value in vars(self).items()})


class Core(Monitored):
    """Base class of cores. A subclass declares in `supports` what it can be used for, and overrides `forward`, and
    `build` and `reset_parameters` if it has parameters.

    Args:
        size: Model width M.
        heads: Number of heads H.
        options: The core's options; None gives their defaults.
        cross: Whether keys come from another sequence than queries.
        causal: Whether it is self-attention in which no query attends to later keys.

    Attributes:
        size, heads, options, cross, causal: As given; `width` is the width of a head, M / H.
        name: Name of the core in messages: the name it was built by, or else the name of its class.
        supports: What the core can be used for; nets refuse everything else when they are built.
        SOFTMAX_EQUIVALENT: Options at which the core equals softmax attention, or None if there are none.
        tied: "values" if the values are the keys, and `linear_v` is `linear_k`; "keys" if the keys are the queries, and
            `linear_k` is `linear_q`; or "".
        state_rows: Number of rows that an encoder's layers hand over to a decoder, before the frames of the output; in
            cross-attention, the number of rows before the frames of the source.
        linear: Whether self-attention over T positions takes O(T) time and memory.
        position_in_parts: Whether the core receives `Heads.position_term` instead of `Heads.position`, the term of all
            pairs.
        by_pattern: Whether heads with patterns that differ are computed pattern by pattern, so that the core receives
            `Heads.position_term` for them.
        only_logits: Whether queries and keys are read for the logits alone, which heads with one key do not need.
        continuous: Whether inputs that differ by rounding have outputs that do; not where a hash chooses the keys.
    """

    supports: Supports = Supports()
    SOFTMAX_EQUIVALENT: ClassVar[Mapping[str, Any] | None] = None
    tied: str = ""
    state_rows: int = 0
    linear: ClassVar[bool] = False
    position_in_parts: ClassVar[bool] = False
    by_pattern: ClassVar[bool] = False
    only_logits: ClassVar[bool] = False
    continuous: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Options(option_checks.Options):
        """Options of the core: the keys of its `attention:` section besides `core`, `preset`, `layers` and the keys
        of `build.PARTS`."""

        #: Bundles of options by name. `preset` selects one, and explicit options override it.
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
        self.name = type(self).__name__
        self.size, self.heads, self.width = size, heads, size // heads
        self.cross, self.causal = cross, causal
        self.options = options or self.Options()
        self.build()
        self.reset_parameters()

    def build(self) -> None:
        """Make the parameters of the core, from the attributes that the constructor has set; by default there are none.

        Raises:
            ValueError: The core cannot have this size or number of heads, or is not for this use.
        """

    def reset_parameters(self) -> None:
        """Draw the initial values of the core's own parameters, after `build`; by default there are none."""

    def espnet_initialization_fn(self) -> None:
        """Restore initial values: ESPnet's `init` redraws all parameters, then calls this."""
        self.reset_parameters()

    def perturb(self, query: Tensor, key: Tensor, value: Tensor) -> Inputs:
        """Change the inputs before they are projected, for example by noise in training; by default they stay.

        Args:
            query: (B, Tq, M).
            key: (B, Tk, M); in self-attention the same object as `query`.
            value: (B, Tk, M); usually the same object as `key`.
        """
        return Inputs(query, key, value)

    def compress(self, inputs: Inputs, mask: Tensor | None) -> Inputs:
        """Shorten the inputs of keys and values before they are projected; by default they stay.

        Args:
            inputs: What `perturb` returned.
            mask: Bool, True = may attend, broadcastable to (B, 1, Tq, Tk), or None.
        """
        return inputs

    def connect(self, cores: Sequence["Core"]) -> bool:
        """Prepare the cores of all layers of a net, of which this is the first, to work together.

        Returns:
            Whether the layers hand on a state, `Heads.stream`; by default they do not.
        """
        return False

    def key_features(self, key: Tensor, k: Tensor) -> Tensor | None:
        """Compute what a cache must hold of the keys besides their projections, in evaluation.

        Inputs of the keys (B, T, M) and their projections k (B, H, T, D) -> (B, H, T, R), or None for a core that needs
        only the projections.
        """
        return None

    def cache(self, key: Tensor, k: Tensor, v: Tensor) -> KVCache:
        """Return what a cache holds of positions, in evaluation: by default k, v and `key_features`.

        Args:
            key: Input of the keys (B, T, M).
            k: Keys (B, H, T, D).
            v: Values (B, H, T, D).
        """
        return KVCache(k, v, self.key_features(key, k))

    def next_source(self, source: Tensor, cache: KVCache, mask: Tensor | None) -> Tensor:
        """Return the source that the next layer reads in cross-attention with a cache; by default the same.

        Args:
            source: What this layer read, (B, T, M).
            cache: What `cache` made of it.
            mask: Which positions are not padding, bool (B, 1, 1, T), or None (all).
        """
        return source

    @property
    def reach(self) -> int | None:
        """Greatest distance of a key that a query of self-attention attends to, or None if there is no limit."""
        return None

    def accumulate(self, cache: KVCache, seen: Tensor) -> Sums | None:
        """Sum over keys in evaluation, in float32 or float64, for a core whose queries need only the sums.

        Args:
            cache: Keys and values (B, H, N, D), and sums of earlier keys, to which they are added.
            seen: Which keys belong to each of P prefixes, bool (B or 1, P, N). With sums of earlier keys there are as
                many prefixes as hypotheses.

        Returns:
            The sums, which `forward` finds in `Heads.sums`, or None (the default) if queries need all keys.
        """
        return None

    def reduce_keys(
        self, parts: Iterable[tuple[KVCache, Tensor | None]], stream: Stream
    ) -> Callable[[Tensor], Tensor] | None:
        """Reduce the keys of a long sequence to a fixed size in evaluation, for a core whose queries need no others.

        Args:
            parts: Keys and values of each part of the sequence, projected when they are asked for, and which of them
                are not padding, bool (B or 1, 1, 1, L), or None (all).
            stream: What the layers of the net hand on, see `connect`.

        Returns:
            What computes the context (B, H, L, D) of queries (B, H, L, D), or None (the default) if they need all keys.
        """
        return None

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and the weights (B, H, Tq, Tk) if `heads.need_weights`, else None."""
        raise NotImplementedError

    def inspect(self) -> Inspection:
        """Return what analysis reads of the last call; a core may keep it only for calls with `need_weights`."""
        return Inspection()

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(self.options).items())
