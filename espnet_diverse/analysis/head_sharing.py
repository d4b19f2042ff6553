"""Which heads each language or domain owns, and how many two of them share, as in Fig. 3 of the head-selection paper.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling". Over all layers, two tasks a and b share

    sum over layers l of | picks_a,l and picks_b,l |

heads: at most layers times H, which every task shares with itself. Selection does not depend on the input, so that no
audio is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from espnet_diverse.analysis.collect import KINDS, attentions
from espnet_diverse.attention.head_selection import HeadSelection
from espnet_diverse.decoding.condition_ids import AXES
from espnet_diverse.functional.selection import shared_heads


@dataclass(frozen=True)
class Ownership:
    """Heads that tasks own in the attentions of one kind.

    Attributes:
        kind: A key of `collect.KINDS`.
        by: The axes whose names make a task, joined by "+"; one of several axes where its own table picks alone.
        tasks: Names of the N tasks.
        picks: Heads of each task in each of L layers, counted from 0 and sorted, (N, L, H).
        pool: Heads of a layer.
    """

    kind: str
    by: str
    tasks: Sequence[str]
    picks: NDArray
    pool: int

    @property
    def name(self) -> str:
        """For example "encoder self-attention by language and domain"."""
        return f"{KINDS[self.kind]} by {' and '.join(AXES[axis][0] for axis in self.by.split('+'))}"

    def sharing(self) -> NDArray:
        """Heads that every two tasks share, summed over layers, (N, N)."""
        picks = torch.from_numpy(self.picks)
        return shared_heads(picks.unsqueeze(1), picks.unsqueeze(0)).sum(-1).numpy()

    def owners(self) -> NDArray:
        """Number of tasks that own each head, (L, P)."""
        return (self.picks[..., None] == np.arange(self.pool)).sum((0, 2))

    def rows(self) -> list[list[str]]:
        """A row for each layer, a cell for each task: its heads, counted from 1."""
        heads = self.picks.transpose(1, 0, 2) + 1
        return [[str(layer), *(" ".join(map(str, own)) for own in tasks)] for layer, tasks in enumerate(heads, start=1)]


def ownerships(model: nn.Module) -> list[Ownership]:
    """What the tasks of a model own, one kind of attention after the other; empty where no attention selects heads.

    Selection by several axes gives one for their combinations and one for each axis, as its table alone would pick.
    """
    found = []
    for kind, modules in attentions(model).items():
        selections = [each for module in modules if (each := getattr(module, "selection", None)) is not None]
        axes = list(selections[0].names) if selections else []
        parts = [axes, *([axis] for axis in axes)] if len(axes) > 1 else [axes]
        found += [_ownership(kind, selections, part) for part in parts if part]
    return found


def _ownership(kind: str, selections: list[HeadSelection], axes: list[str]) -> Ownership:
    names = selections[0].names
    alone = axes[0] if len(axes) < len(names) else None
    picks = torch.stack([each.picks(alone).flatten(0, -2) for each in selections], dim=1)
    tasks = [" ".join(task) for task in product(*(names[axis] for axis in axes))]
    return Ownership(kind, "+".join(axes), tasks, picks.sort(-1).values.cpu().numpy(), selections[0].pool)


def summary(owned: Sequence[Ownership]) -> dict[str, dict]:
    """Picks, counted from 0, and shared heads, for JSON."""
    return {
        each.name: {
            "tasks": list(each.tasks),
            "pool": each.pool,
            "picks": each.picks.tolist(),
            "sharing": each.sharing().tolist(),
        }
        for each in owned
    }


def arrays(owned: Sequence[Ownership]) -> Mapping[str, NDArray]:
    """The same for npz."""
    found = {}
    for each in owned:
        prefix = f"{each.kind}_{each.by}"
        found |= {
            f"{prefix}_tasks": np.array(each.tasks),
            f"{prefix}_picks": each.picks,
            f"{prefix}_sharing": each.sharing(),
        }
    return found
