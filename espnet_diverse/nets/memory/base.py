"""Base class of memories: a state that goes from segment to segment, and gives further keys to attention.

The sequence is cut into segments of L frames. With S_t the input of a layer in segment t and M_t the memory after it,

    H_t = Attention(queries S_t, keys and values M_{t-1} (+) S_t),    M_t = update(M_{t-1}, S_t).

A memory depends on the input of its layer alone, not on H_t. All memories of a sequence are therefore computed first,
and attention then works on all segments side by side.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from espnet_diverse.attention import Monitored, MultiHeadAttention
from espnet_diverse.functional.masks import masked_mean
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.redundancy import diversity_radius
from espnet_diverse.option_checks import Options, choice, number
from espnet_diverse.scope import current

State = Any
"""State of a memory: a named tuple of tensors of batch size B."""


@dataclass(frozen=True)
class MemoryOptions(Options):
    """Options that every memory has: keys of a `memory:` section besides `kind`.

    Attributes:
        segment: Number of frames L of a segment, after subsampling.
        slots: Number of slots N.
        scope: "layer": every layer has a memory of its inputs; "shared": all layers read one memory of the inputs of
            the first.
    """

    segment: int = number(64, least=1)
    slots: int = number(10, least=1)
    scope: str = choice("layer", "shared")

    @property
    def keys(self) -> int:
        """Number of keys that the memory adds to a segment's own."""
        return self.slots


class Slots(NamedTuple):
    """Keys that a memory gives to attention.

    Attributes:
        values: Vectors (B, N, M), or (B, S, N, M) for S segments.
        valid: Which slots are filled, (B, N) or (B, S, N).
    """

    values: Tensor
    valid: Tensor

    def cut(self, begin: int | None, end: int | None) -> "Slots":
        """Return slots `begin` to `end` - 1 of (B, N, M)."""
        return Slots(self.values[:, begin:end], self.valid[:, begin:end])


class Memory(Monitored, ABC):
    """Base class of memories. A subclass defines `begin`, `slots`, `update` and perhaps `losses`.

    Args:
        size: Model width M.
        heads: Number of attention heads H.
        options: Options of the memory.
    """

    Options: ClassVar[type[MemoryOptions]] = MemoryOptions

    def __init__(self, size: int, heads: int, options: MemoryOptions):
        super().__init__()
        self.size, self.options = size, options

    @abstractmethod
    def begin(self, batch: int, like: Tensor) -> State:
        """Return the empty memory of `batch` sequences, of the type and on the device of `like`."""

    @abstractmethod
    def slots(self, state: State) -> Slots:
        """Return what attention reads from a state: vectors (B, N, M) and which are filled (B, N)."""

    def encode(self, frames: Tensor) -> Sequence[Tensor]:
        """Return what `update` and `losses` read of inputs of the layer (..., M): these, and further ones (..., M)."""
        return (frames,)

    @abstractmethod
    def update(self, state: State, code: Sequence[Tensor], valid: Tensor) -> State:
        """Return the state after a segment.

        Args:
            state: State before it.
            code: `encode` of the inputs of the layer, each (B, L, M).
            valid: Which frames are not padding, (B, L).
        """

    def carried(self, state: State, segments: int) -> State:
        """Return the state that the next segment gets, after so many segments; by default without gradients."""
        return type(state)(*(x.detach() for x in state))

    def losses(
        self, states: Sequence[State], code: Sequence[Tensor], valid: Tensor, attention: MultiHeadAttention
    ) -> None:
        """Add losses and statistics to the open scope.

        Args:
            states: State before each segment with gradients, and after the last one: S + 1 of them.
            code: `encode` of the inputs of the layer, each (B, S, L, M).
            valid: Which frames are not padding, (B, S, L).
            attention: The layer's attention.
        """

    def read(
        self,
        segments: Tensor,
        valid: Tensor,
        attention: MultiHeadAttention,
        state: State | None = None,
        truncated: bool = True,
    ) -> tuple[Slots, State]:
        """Run through segments.

        Args:
            segments: Inputs of the layer, (B, S, L, M).
            valid: Which frames are not padding, (B, S, L).
            attention: The layer's attention, for the losses.
            state: State before the first segment; None is the empty memory.
            truncated: Whether gradients end between segments where `carried` ends them.

        Returns:
            What attention reads in each segment, (B, S, N, M) and (B, S, N), and the state after the last one.
        """
        state = self.begin(len(segments), segments) if state is None else state
        collect, before, states = current().collect, [], [state]
        code = self.encode(segments) if collect else ()  # else one segment at a time, because there may be many
        parts = zip(*(x.unbind(1) for x in code), strict=True) if collect else map(self.encode, segments.unbind(1))
        for index, (part, filled) in enumerate(zip(parts, valid.unbind(1), strict=True)):
            before.append(self.slots(state))
            state = self.update(state, part, filled)
            if collect:
                states.append(state)
            state = self.carried(state, index + 1) if truncated else state
        if collect:
            self.losses(states, code, valid, attention)
            if current().statistics:
                self._statistics([self.slots(new_state) for new_state in states[1:]], valid.any(-1))
        return Slots(*(torch.stack(parts, 1) for parts in zip(*before, strict=True))), state

    def _statistics(self, after: Sequence[Slots], used: Tensor) -> None:
        """Add the number of filled slots and their diversity, means over segments; used (B, S): not all padding."""
        values, filled = (torch.stack(parts, 1).detach().flatten(0, 1) for parts in zip(*after, strict=True))
        radius = diversity_radius(in_full_precision(values), valid=filled)
        numbers = {"memory_slots": filled.sum(-1), "memory_diversity": radius}
        for name, value in numbers.items():
            current().add_stat(name, masked_mean(value.float(), used.flatten()))


def empty(batch: int, slots: int, size: int, like: Tensor) -> Slots:
    """Return empty slots (batch, slots, size), of the type and on the device of `like`."""
    return Slots(like.new_zeros(batch, slots, size), like.new_zeros(batch, slots, dtype=torch.bool))


def joined(first: Slots, second: Slots) -> Slots:
    """Return the slots of both, one after the other: (B, N1, M) and (B, N2, M) -> (B, N1 + N2, M)."""
    return Slots(torch.cat([first.values, second.values], 1), torch.cat([first.valid, second.valid], 1))
