"""Attention from options by name: a core, and the parts that surround any core.

An `attention:` section of a configuration holds the name of the core (`core`), the options of that core, and the parts
of `PARTS`, each in its own section.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import nn

from espnet_diverse.attention.core import Core
from espnet_diverse.attention.head_patterns import build_head_patterns, head_patterns
from espnet_diverse.attention.modifiers.differential_extension import (
    DifferentialExtension,
    DifferentialExtensionOptions,
)
from espnet_diverse.attention.modifiers.disagreement import DisagreementOptions, build_disagreement
from espnet_diverse.attention.modifiers.head_routing import HeadRouting, HeadRoutingOptions
from espnet_diverse.attention.modifiers.position import check_position, position_option
from espnet_diverse.attention.modifiers.query_key_norm import QueryKeyNormOptions
from espnet_diverse.attention.modifiers.regularisers import DropHeads, DropHeadsOptions, Relaxed, RelaxedOptions
from espnet_diverse.attention.multi_head import MultiHeadAttention
from espnet_diverse.attention.registry import check_uses, core_class
from espnet_diverse.attention.selection.learned_selection import build_selection
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.option_checks import OptionError, UnknownOptionError, read

PARTS: Mapping[str, Callable[[Any], Any]] = {
    "selection": partial(read, SelectionOptions, owner="head selection"),
    "disagreement": partial(read, DisagreementOptions, owner="disagreement"),
    "qk_norm": partial(read, QueryKeyNormOptions, owner="qk_norm"),
    "head_patterns": head_patterns,
    "position": position_option,
    "drop_heads": partial(read, DropHeadsOptions, owner="drop_heads"),
    "relaxed": partial(read, RelaxedOptions, owner="relaxed"),
    "routing": partial(read, HeadRoutingOptions, owner="routing"),
    "dex": partial(read, DifferentialExtensionOptions, owner="dex"),
}
"""Parts of an attention that do not depend on the core, each with the function that reads its options."""

_NEEDS = {
    "qk_norm": ("dot_products",),
    "head_patterns": ("head_patterns",),
    "position": ("head_patterns", "dot_products"),
    "relaxed": ("weighted_values",),
}
"""Uses that a core must support for a part, keys of `supports.USES`."""


def build_core(
    core: str,
    size: int,
    heads: int,
    options: Mapping[str, Any] = MappingProxyType({}),
    cross: bool = False,
    causal: bool = False,
) -> Core:
    """Build a core by name.

    Args:
        core: Name of the core, in `CORES` or registered by `register_core`.
        size: Model width M.
        heads: Number of heads H.
        options: Fields of the core's `Options`, and `preset`, a name in its `PRESETS`, which the other options
            override.
        cross: Whether the core is for cross-attention.
        causal: Whether the core is for causal self-attention.

    Raises:
        ValueError: The name, the preset or one of the options is unknown; the message lists the known ones.
    """
    built = core_class(core)(size, heads, core_options(core, options), cross, causal)
    built.name = core
    return built


def core_options(core: str, settings: Mapping[str, Any]) -> Core.Options:
    """Return the options of the core named `core`; `settings` are the `options` of `build_core`.

    Raises:
        ValueError: As for `build_core`.
    """
    kind = core_class(core).Options
    known = [field.name for field in dataclasses.fields(kind)] + ["preset"] * bool(kind.PRESETS)
    if unknown := [name for name in settings if name not in known]:
        raise UnknownOptionError(f"attention {core!r}", unknown[0], [*known, *PARTS])
    preset, explicit = settings.get("preset"), {name: value for name, value in settings.items() if name != "preset"}
    if preset is None:
        return kind(**explicit)
    if not isinstance(preset, str) or preset not in kind.PRESETS:
        raise OptionError("preset", f"attention {core!r} has no preset {preset!r}; known: {' '.join(kind.PRESETS)}")
    return kind(**(kind.PRESETS[preset] | explicit))


def build_attention(
    core: str,
    size: int,
    heads: int,
    dropout: float = 0.0,
    relative: bool = False,
    cross: bool = False,
    causal: bool = False,
    **options,
) -> MultiHeadAttention:
    """Build a multi-head attention with a core given by name.

    Args:
        core: Name of the core, in `CORES` or registered by `register_core`.
        size: Model width M.
        heads: Number of heads H; divides `size`.
        dropout: Dropout rate of the attention weights.
        relative: Whether `forward` takes relative position embeddings.
        cross: Whether it is cross-attention.
        causal: Whether it is causal self-attention.
        options: Parts of `PARTS`, and the options of `build_core`: `preset` and fields of the core's `Options`.

    Raises:
        ValueError: A name or an option is unknown, or the core does not support a requested feature.
    """
    uses = ["relative_position"] * relative
    built, parts = attention_parts({"core": core, **options}, size, heads, cross, causal, uses)
    return MultiHeadAttention(size, heads, built, dropout, **parts)


def attention_parts(
    settings: Mapping[str, Any],
    size: int,
    heads: int,
    cross: bool = False,
    causal: bool = False,
    uses: Sequence[str] = (),
    memory: bool = False,
) -> tuple[Core, dict[str, Any]]:
    """Build the core of an attention and the parts around it.

    Args:
        settings: An `attention:` section.
        size: Model width M.
        heads: Number of heads H.
        cross: Whether it is cross-attention.
        causal: Whether it is causal self-attention.
        uses: Other uses that the core must support, keys of `supports.USES`.
        memory: Whether `cross` is because keys include those of a memory, which lie before the queries.

    Returns:
        The core, and arguments of `MultiHeadAttention` by name.

    Raises:
        ValueError: A name or an option is unknown, or the core does not support a use or a part.
    """
    options = {option: value for option, value in settings.items() if option not in PARTS}
    name = options.pop("core", "softmax")
    part = {
        option: None if settings.get(option) is None else reader(settings[option]) for option, reader in PARTS.items()
    }
    selection = build_selection(part["selection"], heads)
    pool = selection.pool if selection else heads
    core = build_core(name, size, heads, options, cross, causal)
    flags = {"causal": causal, "cross_attention": cross, "head_selection": selection is not None}
    needed_by = {use: option for option, needs in _NEEDS.items() if part[option] is not None for use in needs}
    needed_by |= {"cross_attention": "a memory"} if memory else {}
    check_uses(name, core.supports, [*(use for use, needed in flags.items() if needed), *uses, *needed_by], needed_by)
    relative = "relative_position" in uses
    check_position(part["position"], core, size // heads, cross and not memory, relative, selection is not None)
    changes: dict[str, Callable[..., nn.Module]] = {  # in this order: of the weights, then of whole heads
        "relaxed": Relaxed,
        "routing": partial(HeadRouting, size=size, heads=heads),
        "drop_heads": DropHeads,
        "dex": partial(DifferentialExtension, width=size // heads),
    }
    return core, {
        "selection": selection,
        "disagreement": build_disagreement(part["disagreement"], core),
        "qk_norm": part["qk_norm"],
        "position": part["position"] or ("relative" if relative else "absolute"),
        "patterns": part["head_patterns"] and build_head_patterns(part["head_patterns"], pool, cross, causal),
        "changes": [make(part[name]) for name, make in changes.items() if part[name] is not None],
    }
