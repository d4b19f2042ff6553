"""Position inside an attention, instead of positions that are added to its inputs.

    attention: {core: softmax, position: rotary}

Equations and papers are in `functional/position.py`. The nets then add no absolute positions to their inputs. All
depend on distances alone; `transformer_xl` has parameters. With `rotary` PyTorch's fused kernel needs no matrix of
biases.

The positions of ESPnet's relative attention are given by the net, for as many keys as queries. The positions of
`transformer_xl` (Dai et al. 2019, section 3.3) follow from the mask, so that causal attention, cached decoding and
memories have them too: keys are in temporal order, and the keys before a segment are the slots of its memory.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.functional.position import distance_bias, distance_term, rotate, sinusoids, turns
from espnet_diverse.option_checks import OptionError, must_be

POSITIONS = ("rotary", "alibi", "transformer_xl")
"""Positions that the attention adds itself, without the net."""


def position_option(value: Any) -> str:
    """Read the position of an attention from a configuration.

    Raises:
        OptionError: It is unknown.
    """
    if value not in POSITIONS:
        raise must_be("position", f"one of {' '.join(POSITIONS)}", value)
    return value


def check_position(
    position: str | None, core: Core, width: int, cross: bool, relative: bool, selects: bool = False
) -> None:
    """Check that an attention can add position itself.

    Args:
        position: One of `POSITIONS`, or None.
        core: The core.
        width: Width D of a head.
        cross: Whether keys are of another sequence than queries; the keys of a memory are not.
        relative: Whether the net gives relative position.
        selects: Whether heads are selected for each sample.

    Raises:
        OptionError: It cannot.
    """
    message = None
    if position is not None and cross:
        message = "does not fit cross-attention, whose keys have other positions"
    elif position is not None and relative:
        message = "replaces relative position; set pos_enc_layer_type: abs_pos and selfattention_layer_type: selfattn"
    elif position == "rotary" and width % 2:
        message = f"needs heads of even width, but it is {width}"
    elif position in ("alibi", "transformer_xl") and core.position_in_parts:
        message = f"does not fit attention {core.name!r}; choose rotary"
    elif position == "transformer_xl" and selects:
        message = "does not fit head selection; choose rotary or alibi"
    if message is not None:
        raise OptionError("position", f"position {position} {message}")


def with_position(heads: Heads, position: str, causal: bool) -> Heads:
    """Return the heads with position in their queries and keys, or in their position term.

    Args:
        heads: The heads.
        position: "rotary" or "alibi".
        causal: Whether the mask excludes keys after a query.
    """
    query, key = heads.positions(causal)
    if position == "rotary":
        of_key = turns(_of_keys(key, heads.mask), heads.k)
        of_query = of_key if heads.same_positions() else turns(query.reshape(-1, query.size(-2)), heads.q)
        return replace(heads, q=rotate(heads.q, *of_query), k=rotate(heads.k, *of_key))
    term = distance_bias(query, key, heads.q)
    term = term.squeeze(1) if term.dim() == 5 else term  # positions of a cache are (B, 1, Tq, Tk)
    return replace(heads, position=term.expand(len(heads.q), -1, heads.q.size(2), heads.k.size(2)))


def _of_keys(key: Tensor, mask: Tensor | None) -> Tensor:
    """Return the position of each key, broadcastable to (B, Tk).

    In a cache with hypotheses side by side a key has the same position for every query that may attend to it.
    """
    return key if key.dim() < 4 or mask is None else key.masked_fill(~mask, 0).amax(-2).squeeze(1)


class TransformerXLPosition(nn.Module):
    """Adds the terms (b), (c) and (d) of Dai et al. to the logits of an attention.

    Args:
        size: Model width M.
        heads: Number of heads H.
    """

    def __init__(self, size: int, heads: int):
        super().__init__()
        self.linear_pos = nn.Linear(size, size, bias=False)
        self.pos_bias_u = nn.Parameter(torch.empty(heads, size // heads))
        self.pos_bias_v = nn.Parameter(torch.empty(heads, size // heads))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)

    def forward(self, heads: Heads, causal: bool) -> Heads:
        """Return the heads with the bias u in their queries, and with their position term.

        Args:
            heads: The heads.
            causal: Whether the mask excludes keys after a query.
        """
        query, key = heads.positions(causal)
        most = heads.k.size(2) - 1
        least = 0 if causal else -most
        distances = torch.arange(least, most + 1, device=heads.q.device)
        p = self.linear_pos(sinusoids(distances, self.linear_pos.in_features).to(heads.q.dtype))
        p = p.unflatten(-1, self.pos_bias_u.shape).transpose(0, 1)
        term = distance_term(heads.q + self.pos_bias_v.unsqueeze(-2), p, (query - key).clamp(least, most) - least)
        return replace(heads, q=heads.q + self.pos_bias_u.unsqueeze(-2), position=term)
