"""Attention modules: one shell that projects and merges heads, and one core a method.

Letters used for shapes in this package, defined once:

    B batch         T time (Tq queries, Tk keys)    M model width    H heads    D width of one head (M = H * D)
    C clusters      P pool of heads to pick from    L packed length  S segment  R features    N conditions

Masks are bool, True = may attend, broadcastable to (B, 1, Tq, Tk).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from espnet_diverse.attention.head_selection import build_selection
from espnet_diverse.attention.multi_head import Core, MultiHeadAttention
from espnet_diverse.attention.sdma import SDMA
from espnet_diverse.attention.sma import SMA
from espnet_diverse.attention.softmax import Softmax
from espnet_diverse.option_checks import OptionError, check_names

CORES: dict[str, type[Core]] = {"softmax": Softmax, "sma": SMA, "sdma": SDMA}


def build_core(core: str, size: int, heads: int, cross: bool = False, causal: bool = False, **options) -> Core:
    """Build the core called `core` for `heads` heads over width `size`.

    Args:
        core: A name in `CORES`.
        size: Model width M.
        heads: Number of heads H.
        cross: Whether it is for cross-attention.
        causal: Whether it is for causal self-attention.
        options: Fields of the core's `Options`, and `preset`, a name in its `PRESETS`, which the others override.

    Raises:
        ValueError: The name, the preset or one of the options is unknown; the message lists the known ones.
    """
    chosen = core_options(core, options)
    return CORES[core](size, heads, chosen, cross, causal)


def core_options(core: str, given: Mapping[str, Any]) -> Core.Options:
    """Options of the core called `core`, a name in `CORES`; `given` are the `options` of `build_core`.

    Raises:
        ValueError: As `build_core`.
    """
    if core not in CORES:
        raise OptionError("core", f"unknown attention {core!r}; known: {' '.join(CORES)}")
    kind = CORES[core].Options
    known = [field.name for field in dataclasses.fields(kind)] + ["preset"] * bool(kind.PRESETS)
    check_names(given, known, f"attention {core!r}")
    preset, explicit = given.get("preset"), {name: value for name, value in given.items() if name != "preset"}
    if preset is None:
        return kind(**explicit)
    if preset not in kind.PRESETS:
        raise ValueError(f"attention {core!r} has no preset {preset!r}; known: {' '.join(kind.PRESETS)}")
    return kind(**(kind.PRESETS[preset] | explicit))


def build_attention(
    core: str,
    size: int,
    heads: int,
    dropout: float = 0.0,
    relative: bool = False,
    selection: Mapping[str, Any] | None = None,
    **options,
) -> MultiHeadAttention:
    """Build a multi-head attention around the core called `core`.

    Args:
        core: A name in `CORES`.
        size: Model width M.
        heads: Number of heads H; divides `size`.
        dropout: Dropout rate of the attention weights.
        relative: Whether `forward` takes relative position embeddings.
        selection: `SelectionOptions` of head selection by name; None is none.
        options: What `build_core` takes besides: `cross`, `causal`, `preset` and fields of the core's `Options`.
    """
    attends = build_core(core, size, heads, **options)
    return MultiHeadAttention(size, heads, attends, dropout, relative, build_selection(selection, heads))
