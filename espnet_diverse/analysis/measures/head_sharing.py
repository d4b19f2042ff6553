"""Heads selected by each language or domain, and the number that two of them share, as in Fig. 3 of Gong et al.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling". Over all layers, two languages or domains a and b share

    sum over layers l of | picks_a,l and picks_b,l |

heads, at most H times the number of layers. Selection does not depend on the input, so no audio is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from espnet_diverse.analysis.collect import KINDS, attentions
from espnet_diverse.attention.selection.head_selection import HeadSelection
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.functional.selection import shared_heads


@dataclass(frozen=True)
class Ownership:
    """Heads that languages or domains select in the attentions of one kind.

    Attributes:
        kind: A key of `collect.KINDS`.
        by: Conditions that heads are selected by, joined by "+"; or one of several, if its logits select alone.
        values: The N values: languages, domains or combinations of them.
        picks: Indices of the heads of each value in each of L layers, sorted, (N, L, H).
        pool: Number of heads P in the pool of a layer.
    """

    kind: str
    by: str
    values: Sequence[str]
    picks: NDArray
    pool: int

    @property
    def name(self) -> str:
        """Title, for example "encoder self-attention by language and domain"."""
        return f"{KINDS[self.kind]} by {' and '.join(CONDITIONS[condition].label for condition in self.by.split('+'))}"

    def sharing(self) -> NDArray:
        """Return the number of heads that every two values share, summed over layers, (N, N)."""
        picks = torch.from_numpy(self.picks)
        return shared_heads(picks.unsqueeze(1), picks.unsqueeze(0)).sum(-1).numpy()

    def owners(self) -> NDArray:
        """Return the number of values that select each head, (L, P)."""
        return (self.picks[..., None] == np.arange(self.pool)).sum((0, 2))

    def rows(self) -> list[list[str]]:
        """Return a row for each layer with a cell for each value, which lists its heads counted from 1."""
        heads = self.picks.transpose(1, 0, 2) + 1
        return [
            [str(number), *(" ".join(map(str, picks)) for picks in layer)]
            for number, layer in enumerate(heads, start=1)
        ]


def ownerships(model: nn.Module) -> list[Ownership]:
    """Return the heads of languages and domains for each kind of attention; an empty list without head selection.

    For selection by several conditions, the first entry is for their combinations, and further entries are for the
    heads that the logits of each condition would select alone.
    """
    entries = []
    for kind, modules in attentions(model).items():
        selections = [selection for module in modules if (selection := getattr(module, "selection", None)) is not None]
        conditions = list(selections[0].names) if selections else []
        parts = [conditions, *([condition] for condition in conditions)] if len(conditions) > 1 else [conditions]
        entries += [_ownership(kind, selections, part) for part in parts if part]
    return entries


def _ownership(kind: str, selections: list[HeadSelection], conditions: list[str]) -> Ownership:
    names = selections[0].names
    alone = conditions[0] if len(conditions) < len(names) else None
    picks = torch.stack([selection.picks(alone).flatten(0, -2) for selection in selections], dim=1)
    values = [" ".join(combination) for combination in product(*(names[condition] for condition in conditions))]
    return Ownership(kind, "+".join(conditions), values, picks.sort(-1).values.cpu().numpy(), selections[0].pool)


def summary(owned: Sequence[Ownership]) -> dict[str, dict]:
    """Return selected heads, counted from 0, and numbers of shared heads, for JSON."""
    return {
        ownership.name: {
            "values": list(ownership.values),
            "pool": ownership.pool,
            "picks": ownership.picks.tolist(),
            "sharing": ownership.sharing().tolist(),
        }
        for ownership in owned
    }


def arrays(owned: Sequence[Ownership]) -> Mapping[str, NDArray]:
    """Return the same as arrays, for npz."""
    entries = {}
    for ownership in owned:
        prefix = f"{ownership.kind}_{ownership.by}"
        entries |= {
            f"{prefix}_values": np.array(ownership.values),
            f"{prefix}_picks": ownership.picks,
            f"{prefix}_sharing": ownership.sharing(),
        }
    return entries
