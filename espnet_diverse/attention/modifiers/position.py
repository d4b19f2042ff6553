"""Position inside an attention, in place of positions that are added to its inputs.

    attention: {core: softmax, position: rotary}

Equations and papers are in `functional/position.py`. The nets then add no absolute positions to their inputs. Both
depend on distances alone, and cost no parameters. With `rotary` PyTorch's fused kernel needs no matrix of biases.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from espnet_diverse.attention.core import Heads
from espnet_diverse.functional.position import distance_bias, rotate
from espnet_diverse.option_checks import must_be

POSITIONS = ("rotary", "alibi")
"""Positions that the attention has by itself."""


def position_option(given: Any) -> str:
    """Read the position of an attention from a configuration.

    Raises:
        OptionError: It is unknown.
    """
    if given not in POSITIONS:
        raise must_be("position", f"one of {' '.join(POSITIONS)}", given)
    return given


def with_position(heads: Heads, position: str, causal: bool) -> Heads:
    """Return the heads with position in their queries and keys, or in their position term.

    Args:
        heads: The heads.
        position: One of `POSITIONS`.
        causal: Whether the mask excludes keys after a query.
    """
    query, key = heads.positions(causal)
    if position == "rotary":
        query, key = _of_rows(query, key, heads.mask)
        return replace(heads, q=rotate(heads.q, query), k=rotate(heads.k, key))
    bias = distance_bias(query, key, heads.q.size(1))
    bias = bias.squeeze(1) if bias.dim() == 5 else bias  # positions of a cache are (B, 1, Tq, Tk)
    term = (bias * heads.q.size(-1) ** 0.5).to(heads.q.dtype)
    return replace(heads, position=term.expand(len(heads.q), -1, heads.q.size(2), heads.k.size(2)))


def _of_rows(query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the position of each query and each key, broadcastable to (B, Tq) and (B, Tk).

    In a cache with hypotheses side by side a key has the same position for every query that may attend to it.
    """
    if key.dim() < 4 or mask is None:
        return query.squeeze(-1), key
    return query[:, 0, :, 0], key.masked_fill(~mask, 0).amax(-2).squeeze(1)
