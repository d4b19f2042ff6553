"""Pruning of attention to what it has chosen: the heads of one language or domain, and a pattern of each head."""

import copy

from torch import nn

from espnet_diverse.attention.cores.pattern_gates import PatternGates
from espnet_diverse.attention.cores.softmax import Softmax
from espnet_diverse.attention.multi_head import MultiHeadAttention


def prune_heads(attention: MultiHeadAttention) -> None:
    """Turn it into attention without selection, with the heads of the open scope's condition; the others are removed.

    Gates of patterns become the patterns of the largest gates.

    Raises:
        ValueError: The scope has no condition, an unknown one, or several.
    """
    if isinstance(core := attention.core, PatternGates):
        attention.patterns = core.chosen()
        attention.core = Softmax(core.size, core.heads)
        attention.core.name = "softmax"
    if attention.selection is None:
        return
    mode = attention.selection.training
    try:
        selected = attention.selection.eval()(1)
    finally:
        attention.selection.train(mode)  # the original of a copy may still be in use
    names = ("linear_q", "linear_k", "linear_v", "linear_pos")[: 4 if attention.relative else 3]
    linears = {name: getattr(attention, name) for name in names}
    replacements = {linear: selected.pruned(linear) for linear in linears.values()}  # tied ones stay one map
    for name, linear in linears.items():
        setattr(attention, name, replacements[linear])
    for name in ("pos_bias_u", "pos_bias_v")[: 2 if attention.relative else 0]:
        setattr(attention, name, nn.Parameter(selected.rows(getattr(attention, name))[0].detach()))
    if attention.head_mask is not None:
        attention.head_mask = selected.rows(attention.head_mask.to(selected.picks.device))[0]
    if attention.patterns is not None:
        attention.patterns = attention.patterns.of(selected.picks[0])
    attention.selection = None


def pruned(attention: MultiHeadAttention) -> MultiHeadAttention:
    """Return a pruned copy, see `prune_heads`; the original stays as it is. All but the projections is shared.

    Raises:
        ValueError: The scope has no condition, an unknown one, or several.
    """
    other = copy.copy(attention)
    other._modules, other._parameters = dict(attention._modules), dict(attention._parameters)
    prune_heads(other)
    return other
