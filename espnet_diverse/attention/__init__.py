"""Multi-head attention with a choice of cores, one for each method.

Letters used for shapes in this package:

    B batch    T time (Tq queries, Tk keys)      M model width    H heads    D width of one head (M = H * D)
    C clusters P pool of heads to select from    N values of a condition, or slots of a memory
    S segments L frames of a segment             R packed or compressed rows, or random features

Masks are bool, True = may attend, broadcastable to (B, 1, Tq, Tk).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from espnet_diverse.attention.core import Core, Heads, Inputs, KVCache, Stream
from espnet_diverse.attention.disagreement import build_disagreement
from espnet_diverse.attention.inspection import AuxiliaryLoss, Diagnosis, HeadMap, Inspection, Monitored
from espnet_diverse.attention.multi_head import MultiHeadAttention
from espnet_diverse.attention.registry import CORES, check_uses, core_class, known_cores, register_core
from espnet_diverse.attention.selection.learned_selection import build_selection
from espnet_diverse.attention.supports import EVERYTHING, Supports
from espnet_diverse.attention.update_counter import set_updates_of_run
from espnet_diverse.option_checks import OptionError, check_names

__all__ = [
    "CORES",
    "EVERYTHING",
    "AuxiliaryLoss",
    "Core",
    "Diagnosis",
    "HeadMap",
    "Heads",
    "Inputs",
    "Inspection",
    "KVCache",
    "Monitored",
    "MultiHeadAttention",
    "Stream",
    "Supports",
    "build_attention",
    "build_core",
    "build_core_of",
    "build_disagreement",
    "build_selection",
    "check_uses",
    "known_cores",
    "register_core",
    "set_updates_of_run",
]


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
    selection: Mapping[str, Any] | None = None,
    disagreement: Mapping[str, Any] | None = None,
    **options,
) -> MultiHeadAttention:
    """Build a multi-head attention with a core given by name.

    Args:
        core: Name of the core, in `CORES` or registered by `register_core`.
        size: Model width M.
        heads: Number of heads H; divides `size`.
        dropout: Dropout rate of the attention weights.
        relative: Whether `forward` takes relative position embeddings.
        selection: `SelectionOptions` by name; None is attention without head selection.
        disagreement: `DisagreementOptions` by name; None adds no loss of heads that are alike.
        options: Further arguments of `build_core`: `cross`, `causal`, `preset` and fields of the core's `Options`.

    Raises:
        ValueError: A name or an option is unknown, or the core does not support what is asked for.
    """
    built, selected = build_core(core, size, heads, **options), build_selection(selection, heads)
    uses = {
        "relative_position": relative,
        "causal": options.get("causal", False),
        "cross_attention": options.get("cross", False),
        "head_selection": selected is not None,
    }
    check_uses(core, built.supports, [use for use, needed in uses.items() if needed])
    penalty = build_disagreement(disagreement, built)
    return MultiHeadAttention(size, heads, built, dropout, relative, selected, penalty)
