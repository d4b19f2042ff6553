"""Properties of an attention core: declared by the core, checked by the nets when they are built."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

USES = {
    "padding": "batches with padding",
    "relative_position": "relative position",
    "causal": "causal self-attention",
    "cached_decoding": "cached decoding",
    "cross_attention": "cross-attention",
    "head_selection": "head selection",
    "head_patterns": "patterns of heads",
    "dot_products": "dot products of whole queries and keys",
    "weighted_values": "relaxed weights",
}
"""Uses that a net may make of a core, fields of `Supports`, with their names in messages."""


@dataclass(frozen=True)
class Supports:
    """Properties of a core. The default is bidirectional self-attention over batches with padding, and nothing else.

    A net that makes another use of the core is refused when it is built. `tests/attention/test_invariants.py` runs the
    invariants of everything that a built-in core declares.

    Attributes:
        padding: The output at valid positions does not depend on positions that the mask excludes.
        relative_position: The logits include `Heads.position`.
        causal: The mask may exclude later keys, so that no query sees them.
        cached_decoding: The output of a query does not depend on other queries, and everything that it needs of the
            keys is in `KVCache`, see `Core.cache` and `Core.accumulate`.
        cross_attention: Keys and values may come from another sequence than the queries.
        explicit_weights: The core returns its attention weights when `Heads.need_weights` asks for them. Without them
            the attention has no weights to plot or analyse, and is left out there.
        head_selection: The heads may differ between the samples of a batch.
        head_patterns: A query attends to the keys of `Heads.allowed()`, which may differ between heads.
        dot_products: The logits are `Heads.scores()`, the dot products of queries and keys.
        weighted_values: The context is the mean of the values by the weights, of the keys in `Heads.allowed()`.
        half_precision: The core computes in the precision of its inputs. Otherwise it receives float32 when autocast or
            the model computes in half precision.
        max_length: The greatest number of queries or keys, or None for any number. A core whose limit depends on its
            options sets its attribute `supports` in its constructor. A longer input is refused when the net is built if
            its length is known by then, by training before the first step, and otherwise at the first such input.
    """

    padding: bool = True
    relative_position: bool = False
    causal: bool = False
    cached_decoding: bool = False
    cross_attention: bool = False
    explicit_weights: bool = False
    head_selection: bool = False
    head_patterns: bool = False
    dot_products: bool = False
    weighted_values: bool = False
    half_precision: bool = False
    max_length: int | None = None

    def missing(self, uses: Iterable[str]) -> str | None:
        """Return the first of `uses`, which are keys of `USES`, that is not supported, or None."""
        return next((use for use in uses if not getattr(self, use)), None)

    def check_length(self, core: str, *lengths: int) -> None:
        """Check numbers of queries or keys.

        Args:
            core: Name of the core, for the message.
            lengths: The numbers.

        Raises:
            ValueError: One of them is greater than `max_length`.
        """
        if self.max_length is not None and max(lengths) > self.max_length:
            raise ValueError(
                f"attention {core!r} supports at most {self.max_length} positions, and {max(lengths)} are needed; "
                "shorten the input or choose another core"
            )


EVERYTHING = Supports(**{field.name: True for field in fields(Supports) if field.name != "max_length"})
"""Everything, at any length."""
