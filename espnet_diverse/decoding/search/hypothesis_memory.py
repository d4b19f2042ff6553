"""Memories of the hypotheses of a search, for a net whose self-attention works by segments (`nets/memory`).

Within a segment the hypotheses are paths of the tree of `prefix_tree.py`. When the segment is full, the memory of each
hypothesis is updated with the inputs along its path, and a new tree begins, whose first nodes are the slots. A step
costs O(N + L) for each hypothesis, however long the prefixes are.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.nets.memory import Memory, SegmentAttention
from espnet_diverse.nets.memory.base import Slots, State


class HypothesisMemory:
    """Memories of W hypotheses of each of B utterances, of all layers.

    Args:
        attention: Self-attention of each layer.

    Attributes:
        segment: Number of positions L of a segment.
    """

    def __init__(self, attention: Sequence[SegmentAttention]):
        self.attention, self.segment = attention, attention[0].segment
        self.states: dict[Memory, State] = {}  # before the segment, of batch size B W' with W' hypotheses at its start
        self.filled: list[Tensor] = []  # of each layer (B, N W'): whether each of the first nodes, the slots, is filled
        self._begin_segment()

    def _begin_segment(self) -> None:
        self.inputs: dict[Memory, list[Tensor]] = {
            attention.memory: [] for attention in self.attention if attention.memory is not None
        }
        self.valid: list[Tensor] = []  # of each step (B, W): whether a hypothesis has a token that is not padding
        self.parents: list[Tensor] = []  # of each step (B, W): the hypotheses that the next step extends

    @property
    def is_full(self) -> bool:
        """Whether the segment has as many positions as it can have."""
        return len(self.parents) == self.segment

    def add(self, layer: int, x: Tensor) -> None:
        """Add inputs (B, W, M) of the attention of a layer at the next position."""
        if (memory := self.attention[layer].memory) is not None:
            self.inputs[memory].append(x)

    def visible(self, layer: int, behind: Tensor) -> Tensor:
        """Nodes that each hypothesis attends to in a layer: `behind` (B, W, nodes) without empty slots."""
        return behind & self._filled(layer, behind.size(-1)).unsqueeze(1) if self.filled else behind

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        self.parents.append(parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`, of a batch of (B, W) tokens at the last position."""
        batch = len(self.valid[-1])
        for tensors in (self.valid, self.parents, self.filled, *self.inputs.values()):
            tensors[:] = [x[rows] for x in tensors]
        for memory, state in self.states.items():
            self.states[memory] = type(state)(*(x.unflatten(0, (batch, -1))[rows].flatten(0, 1) for x in state))

    def select(self, nodes: Tensor, count: int) -> None:
        """Keep the nodes (B, N') among `count` nodes."""
        self.filled = [self._filled(layer, count).gather(1, nodes) for layer in range(len(self.filled))]

    def next_segment(self) -> list[Tensor]:
        """Update all memories with the full segment, and return the first nodes of the next one.

        Returns:
            The slots of each layer, as inputs of its attention, (B, W N, M), one hypothesis after the other.
        """
        paths = self.parents[-1:]
        for parents in reversed(self.parents[:-1]):
            paths.append(parents.gather(1, paths[-1]))
        paths.reverse()  # the node at each position of the segment, (B, W) each
        valid = _along(self.valid, paths)
        slots: Slots | None = None
        nodes, self.filled = [], []
        for attention in self.attention:
            if (memory := attention.memory) is not None:
                segment = _along(self.inputs[memory], paths)
                state = memory.update(self._state(memory, paths[0], segment), memory.encode(segment), valid)
                self.states[memory], slots = state, memory.slots(state)
            assert slots is not None  # the first layer has a memory
            nodes.append(slots.values.unflatten(0, paths[0].shape).flatten(1, 2))
            self.filled.append(slots.valid.unflatten(0, paths[0].shape).flatten(1, 2))
        self._begin_segment()
        return nodes

    def _state(self, memory: Memory, roots: Tensor, like: Tensor) -> State:
        """State before the segment for hypotheses that began as `roots` (B, W), of batch size B W."""
        if memory not in self.states:
            return memory.begin(len(like), like)
        state = self.states[memory]
        before = len(state[0]) // len(roots)
        rows = (roots + before * torch.arange(len(roots), device=roots.device).unsqueeze(1)).flatten()
        return type(state)(*(x[rows] for x in state))

    def _filled(self, layer: int, nodes: int) -> Tensor:
        return F.pad(self.filled[layer], (0, nodes - self.filled[layer].size(1)), value=True)


def _along(steps: Sequence[Tensor], paths: Sequence[Tensor]) -> Tensor:
    """Values (B, W', ...) of L steps along the paths of W hypotheses, (B, W) each -> (B W, L, ...)."""
    rows = torch.arange(len(paths[0]), device=paths[0].device).unsqueeze(1)
    return torch.stack([x[rows, path] for x, path in zip(steps, paths, strict=True)], 2).flatten(0, 1)
