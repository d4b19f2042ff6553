"""Memories of earlier segments, for nets that process their input in segments."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.memory.base import Memory, MemoryOptions
from espnet_diverse.nets.memory.cdt import CDTMemory
from espnet_diverse.nets.memory.compressive import CompressiveMemory
from espnet_diverse.nets.memory.segments import Carried, MemoryAttention, MemoryStream, SegmentAttention, stream_of
from espnet_diverse.nets.memory.source import SourceMemory
from espnet_diverse.nets.memory.xl import XLMemory
from espnet_diverse.nets.replace_attention import RELATIVE, replace_attention, selects_heads
from espnet_diverse.nets.stream import return_mask
from espnet_diverse.option_checks import hint, must_be, read
from espnet_diverse.upstream.layers import ConformerLayer, DecoderLayer, EncoderLayer

__all__ = [
    "MEMORIES",
    "Carried",
    "Memory",
    "MemoryAttention",
    "MemoryStream",
    "SegmentAttention",
    "SourceMemory",
    "add_memory",
    "build_source_memory",
    "memory_options",
    "source_memory_options",
]

MEMORIES: dict[str, type[Memory]] = {"cdt": CDTMemory, "xl": XLMemory, "compressive": CompressiveMemory}
"""The memories by name, their `kind` in configurations."""


def memory_options(memory: Mapping[str, Any], net: str = "") -> tuple[str, MemoryOptions]:
    """Return the kind of a memory and its options.

    Args:
        memory: `kind`, a key of `MEMORIES`, and options of that memory.
        net: Name of the net, for messages.

    Raises:
        ConfigError: The kind or an option is unknown, or an option has a wrong value.
    """
    if not isinstance(memory, Mapping):
        raise must_be("memory", "a mapping of options, such as {kind: cdt}", memory)
    options = dict(memory)
    kind = options.pop("kind", None)
    if not isinstance(kind, str) or kind not in MEMORIES:
        where = f"{net}: " if net else ""
        raise ConfigError(f"{where}unknown kind of memory {kind!r}; {hint(str(kind), MEMORIES, 'memory')}")
    return kind, read(MEMORIES[kind].Options, options, f"memory {kind!r}")


def add_memory(
    layers: Sequence[Any],
    attention: dict | None,
    memory: Mapping[str, Any],
    causal: bool = False,
    net: str = "net",
) -> None:
    """Let the self-attention of ESPnet's layers work by segments with a memory.

    Args:
        layers: The layers; ESPnet's attention is replaced by ours, as in `replace_attention`.
        attention: Core and options, see `replace_attention`.
        memory: `kind`, a key of `MEMORIES`, and options of that memory.
        causal: Whether no query attends to later frames.
        net: Name of the net, for messages.

    Raises:
        ConfigError: A name or an option is unknown or has a wrong value, the core does not support keys of another
            sequence, or the layers or their attention do not fit.
    """
    kind, chosen = memory_options(memory, net)
    if selects_heads(attention):
        raise ConfigError(f"{net}: head selection does not fit a memory; leave out one of them")
    _check_layers(layers, chosen.scope, net)
    replace_attention(layers, "self_attn", attention, causal, net, chosen.segment + chosen.keys, SegmentAttention)
    for number, layer in enumerate(layers):
        ours = layer.self_attn
        ours.causal, ours.segment = causal, chosen.segment
        has_memory = number == 0 or chosen.scope == "layer"
        ours.memory = MEMORIES[kind](ours.h * ours.d_k, ours.h, chosen) if has_memory else None
    if chosen.scope == "shared":
        layers[0].register_forward_pre_hook(_begin)
        layers[-1].register_forward_hook(return_mask)


def _check_layers(layers: Sequence[Any], scope: str, net: str) -> None:
    """Check that a memory fits layers, their attention, and the operations between them."""
    if not all(isinstance(layer, EncoderLayer | ConformerLayer | DecoderLayer) for layer in layers):
        raise ConfigError(f"a memory does not fit the layers of {net}; choose diverse_transformer or diverse_conformer")
    if any(isinstance(layer.self_attn, RELATIVE) for layer in layers):
        raise ConfigError(
            f"{net}: slots have no relative position of ESPnet; set pos_enc_layer_type: abs_pos and "
            "selfattention_layer_type: selfattn, and perhaps attention.position, see docs/memory.md"
        )
    rates = [getattr(layers, "layer_drop_rate", 0.0), *(getattr(layer, "stochastic_depth_rate", 0) for layer in layers)]
    if scope == "shared" and any(rates):
        raise ConfigError(
            f"{net}: a layer that is skipped (layer_drop_rate, stochastic_depth_rate) may be the one with the shared "
            "memory; set both to 0, or scope: layer"
        )


def source_memory_options(memory: Mapping[str, Any], net: str = "") -> tuple[str, MemoryOptions]:
    """Return the kind of a memory of the encoder's output, which cross-attention reads, and its options.

    Args:
        memory: As in `memory_options`.
        net: Name of the net, for messages.

    Raises:
        ConfigError: As for `memory_options`, or there is an option that this memory does not have.
    """
    kind, chosen = memory_options(memory, net)
    where = f"{net}: " if net else ""
    for name in ("scope", "bptt_segments"):
        if name in memory:
            has = "one memory serves all layers, and gradients pass through all of it"
            raise ConfigError(f"{where}cross_memory has no {name}: {has}; leave it out")
    if getattr(chosen, "compression", None) == "conv":
        has = "the loss that compression conv learns from has queries of the same sequence"
        raise ConfigError(f"{where}cross_memory: {has}; set compression to mean or max")
    return kind, chosen


def build_source_memory(size: int, heads: int, memory: Mapping[str, Any], net: str = "") -> SourceMemory:
    """Build a memory of the encoder's output, of width `size`; see `source_memory_options`."""
    kind, chosen = source_memory_options(memory, net)
    return SourceMemory(MEMORIES[kind](size, heads, chosen))


def _begin(layer: nn.Module, args: tuple) -> tuple:
    """Replace the mask that the first layer gets by a `MemoryStream`, so that later layers see its memory."""
    x, mask, *rest = args
    return (x, stream_of(x, mask), *rest)
