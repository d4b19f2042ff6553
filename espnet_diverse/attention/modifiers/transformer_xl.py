"""Relative position of Transformer-XL, as a position that an attention has by itself.

Dai et al. 2019, section 3.3. The positions of ESPnet's relative attention are given by the net, for as many keys as
queries. Here they follow from the mask, so that causal attention, cached decoding and memories have them too: keys lie
in the order of time, and those before a segment are the slots of its memory.
"""

from dataclasses import replace

import torch
from torch import nn

from espnet_diverse.attention.core import Heads
from espnet_diverse.functional.position import distance_term, sinusoids


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
