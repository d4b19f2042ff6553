"""Attention from options by name: a core, and the parts that surround any core.

An `attention:` section of a configuration has the name of the core, `core`, the options of that core, and the parts of
`PARTS`, each a section of its own.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from espnet_diverse.attention.core import Core
from espnet_diverse.attention.modifiers.disagreement import build_disagreement, disagreement_options
from espnet_diverse.attention.modifiers.head_patterns import build_head_patterns, head_patterns
from espnet_diverse.attention.modifiers.position import position_option
from espnet_diverse.attention.modifiers.query_key_norm import query_key_norm_options
from espnet_diverse.attention.modifiers.regularisers import DropHeads, Relaxed, drop_heads_options, relaxed_options
from espnet_diverse.attention.multi_head import MultiHeadAttention
from espnet_diverse.attention.registry import check_uses, core_class
from espnet_diverse.attention.selection.learned_selection import build_selection
from espnet_diverse.attention.selection.selection_options import selection_options
from espnet_diverse.option_checks import OptionError, check_names

PARTS: Mapping[str, Callable[[Any], Any]] = {
    "selection": selection_options,
    "disagreement": disagreement_options,
    "qk_norm": query_key_norm_options,
    "head_patterns": head_patterns,
    "position": position_option,
    "drop_heads": drop_heads_options,
    "relaxed": relaxed_options,
}
"""Parts of an attention that no core has to itself, and what reads their options."""

_REGULARISERS = {"drop_heads": DropHeads, "relaxed": Relaxed}


def build_core(core: str, size: int, heads: int, cross: bool = False, causal: bool = False, **options) -> Core:
    """Build a core by name.

    Args:
        core: Name of the core, in `CORES` or registered by `register_core`.
        size: Model width M.
        heads: Number of heads H.
        cross: Whether the core is for cross-attention.
        causal: Whether the core is for causal self-attention.
        options: Fields of the core's `Options`, and `preset`, a name in its `PRESETS`, which the other options
            override.

    Raises:
        ValueError: The name, the preset or one of the options is unknown; the message lists the known ones.
    """
    return build_core_of(core, size, heads, options, cross, causal)


def build_core_of(
    core: str, size: int, heads: int, given: Mapping[str, Any], cross: bool = False, causal: bool = False
) -> Core:
    """Build a core by name, like `build_core`, with options from a configuration, which may have any names.

    Raises:
        ValueError: As `build_core`.
    """
    built = core_class(core)(size, heads, core_options(core, given), cross, causal)
    built.name = core
    return built


def core_options(core: str, given: Mapping[str, Any]) -> Core.Options:
    """Options of the core called `core`, its name; `given` are the `options` of `build_core`.

    Raises:
        ValueError: As `build_core`.
    """
    kind = core_class(core).Options
    known = [field.name for field in dataclasses.fields(kind)] + ["preset"] * bool(kind.PRESETS)
    check_names(given, known, f"attention {core!r}")
    preset, explicit = given.get("preset"), {name: value for name, value in given.items() if name != "preset"}
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
        ValueError: A name or an option is unknown, or the core does not support what is asked for.
    """
    uses = {"relative_position": relative, "causal": causal, "cross_attention": cross}
    given = {"core": core, **options}
    built, parts = attention_parts(given, size, heads, cross, causal, [use for use, needed in uses.items() if needed])
    return MultiHeadAttention(size, heads, built, dropout, **parts)


def attention_parts(
    given: Mapping[str, Any],
    size: int,
    heads: int,
    cross: bool = False,
    causal: bool = False,
    uses: Sequence[str] = (),
    needed_by: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Core, dict[str, Any]]:
    """Build the core of an attention and what surrounds it.

    Args:
        given: An `attention:` section.
        size: Model width M.
        heads: Number of heads H.
        cross: Whether it is cross-attention.
        causal: Whether it is causal self-attention.
        uses: Other uses that the core must support, keys of `supports.USES`.
        needed_by: What needs a use, see `check_uses`.

    Returns:
        The core, and arguments of `MultiHeadAttention` by name.

    Raises:
        ValueError: A name or an option is unknown, or the core does not support a use or a part.
    """
    options = dict(given)
    name = options.pop("core", "softmax")
    part = {each: options.pop(each, None) for each in PARTS}
    read = {each: None if value is None else PARTS[each](value) for each, value in part.items() if each != "selection"}
    selection = build_selection(part["selection"], heads)
    core = build_core_of(name, size, heads, options, cross, causal)
    patterns = build_head_patterns(part["head_patterns"], heads, causal)
    by_part = {
        "head_selection": selection is not None,
        "head_patterns": any(part[each] is not None for each in ("head_patterns", "relaxed", "position")),
        "dot_products": any(part[each] is not None for each in ("qk_norm", "position")),
    }
    check_uses(name, core.supports, [*uses, *(use for use, needed in by_part.items() if needed)], needed_by)
    _check_position(core, size // heads, read, cross, "relative_position" in uses)
    return core, {
        "selection": selection,
        "disagreement": build_disagreement(part["disagreement"], core),
        "qk_norm": read["qk_norm"],
        "position": read["position"] or ("relative" if "relative_position" in uses else "absolute"),
        "patterns": patterns,
        "regularisers": [kind(read[each]) for each, kind in _REGULARISERS.items() if read[each] is not None],
    }


_ABSOLUTE = "set pos_enc_layer_type: abs_pos and selfattention_layer_type: selfattn"


def _check_position(core: Core, width: int, read: Mapping[str, Any], cross: bool, relative: bool) -> None:
    """Check that parts that depend on positions fit the attention.

    Raises:
        OptionError: They do not.
    """
    for part in ("head_patterns", "position"):
        if read[part] is not None and cross:
            raise OptionError(
                part, f"{part} does not fit cross-attention or a memory: keys have positions of their own"
            )
    position = read["position"]
    if position is not None and relative:
        raise OptionError("position", f"position {position} replaces relative position; {_ABSOLUTE}")
    if position == "rotary" and width % 2:
        raise OptionError("position", f"position rotary needs heads of even width, but it is {width}")
    if position == "alibi" and core.position_in_parts:
        raise OptionError("position", f"position alibi does not fit attention {core.name!r}; choose rotary")
