"""Multi-head attention with a choice of cores, one for each method.

Letters used for shapes in this package:

    B batch    T time (Tq queries, Tk keys)      M model width    H heads    D width of one head (M = H * D)
    C clusters P pool of heads to select from    N values of a condition, or slots of a memory
    S segments L frames of a segment             R packed or compressed rows, or random features

Masks are bool, True = may attend, broadcastable to (B, 1, Tq, Tk).
"""

from espnet_diverse.attention.build import (
    PARTS,
    attention_parts,
    build_attention,
    build_core,
    core_options,
)
from espnet_diverse.attention.core import Core, Heads, Inputs, KVCache, Stream
from espnet_diverse.attention.inspection import AuxiliaryLoss, Diagnosis, HeadMap, Inspection, Monitored
from espnet_diverse.attention.modifiers.disagreement import build_disagreement
from espnet_diverse.attention.multi_head import MultiHeadAttention
from espnet_diverse.attention.registry import CORES, check_uses, core_class, known_cores, register_core
from espnet_diverse.attention.selection.learned_selection import build_selection
from espnet_diverse.attention.supports import EVERYTHING, Supports
from espnet_diverse.attention.update_counter import set_updates_of_run

__all__ = [
    "CORES",
    "EVERYTHING",
    "PARTS",
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
    "attention_parts",
    "build_attention",
    "build_core",
    "build_disagreement",
    "build_selection",
    "check_uses",
    "core_class",
    "core_options",
    "known_cores",
    "register_core",
    "set_updates_of_run",
]
