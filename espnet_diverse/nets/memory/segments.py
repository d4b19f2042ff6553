"""Self-attention by segments with a memory, and the part of it that passes through the layers with their input."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention import Stream
from espnet_diverse.attention.parts import by_parts, is_long
from espnet_diverse.functional.masks import causal as causal_mask
from espnet_diverse.nets.memory.base import Memory, Slots, State
from espnet_diverse.nets.replace_attention import WeightlessAttention
from espnet_diverse.scope import current

Carried = Mapping[Memory, State]
"""State of each memory of a net between two parts of a sequence."""


class MemoryStream(Stream):
    """A substitute for the mask in ESPnet's layers, in a net with memory.

    Args:
        mask: True = may attend, (B, 1, T) or causal (B, T, T).
        carried: States of the memories before this part of the sequence; None is its beginning.

    Attributes:
        visible: Which frames are not padding, (B, T): what the last query may attend to.
        carried: States of the memories after this part.
        slots: What the memory of the current layer gives to attention in each segment, (B, S, N, M) and (B, S, N). A
            shared memory belongs to the first layer.
    """

    def __init__(self, mask: Tensor, carried: Carried | None = None):
        super().__init__(mask)
        self.visible = mask[:, -1]
        self.carried: dict[Memory, State] = dict(carried or {})
        self.slots: Slots | None = None

    def __getitem__(self, _: object) -> "MemoryStream":
        """Return the stream itself, from which ESPnet's cached step of a decoder takes the mask of the last query."""
        return self


class MemoryAttention(WeightlessAttention):
    """Our attention to keys some of which are slots of a memory; its weights are no matrix of frames."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.core.supports = dataclasses.replace(self.core.supports, explicit_weights=False)


class SegmentAttention(MemoryAttention):
    """Our attention within segments, with a memory of earlier segments.

    Attributes:
        memory: The memory, or None if the attention reads an earlier layer's.
        segment: Number of frames L of a segment.
        causal: Whether no query attends to later frames.
    """

    memory: Memory | None
    segment: int
    causal: bool

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *rest: Any, expand_kv: bool = False) -> Tensor:
        """query (B, T, M), which is key and value too, mask (B or 1, 1 or T, T) or `MemoryStream` -> (B, T, M).

        In ESPnet's cached step the query is the last position alone, (B, 1, M), and so is the result.
        """
        (mask,) = rest
        stream = stream_of(key, mask)
        segments, valid = cut(key, stream.visible.expand(len(key), -1), self.segment)
        if self.memory is not None:
            carried = stream.carried.get(self.memory)
            stream.slots, stream.carried[self.memory] = self.memory.read(segments, valid, self, carried)
        slots = stream.slots
        assert slots is not None  # the first layer has a memory
        if query is not key:
            last = Slots(*(x[:, -1:] for x in slots))
            return self._attend_within(query.unsqueeze(1), segments[:, -1:], valid[:, -1:], last).squeeze(1)

        def attend(part: slice) -> Tensor:
            numbers = slice(part.start // self.segment, -(-part.stop // self.segment))
            part_slots, part_segments = Slots(*(x[:, numbers] for x in slots)), segments[:, numbers]
            return self._attend_within(part_segments, part_segments, valid[:, numbers], part_slots).flatten(1, 2)

        time = query.size(1)
        if self.training or torch.is_grad_enabled() or current().collect or not is_long(time):
            return attend(slice(0, time))[:, :time]
        return by_parts(attend, time, multiple_of=self.segment)

    def _attend_within(self, queries: Tensor, segments: Tensor, valid: Tensor, slots: Slots) -> Tensor:
        """Attend from queries to their segments (B, S, L, M) and to the slots of these; valid (B, S, L): not padding.

        The queries are the segments, or (B, S, 1, M) and see all of their segments; the result has their shape.
        """
        keys = torch.cat([slots.values, segments], 2).flatten(0, 1)  # (B S, N + L, M)
        readable = slots.valid & valid.any(-1, keepdim=True)  # none in segments of padding alone, which have no losses
        visible = torch.cat([readable, valid], 2).flatten(0, 1).unsqueeze(1)
        if self.causal and queries is segments:
            visible = visible & F.pad(causal_mask(self.segment, segments.device), (slots.valid.size(2), 0), value=True)
        shared = current()
        of_net, shared.query_mask = shared.query_mask, valid.flatten(0, 1) if shared.collect else None
        out = super().forward(queries.flatten(0, 1), keys, keys, visible)
        shared.query_mask = of_net
        return out.unflatten(0, valid.shape[:2])


def stream_of(x: Tensor, mask: Tensor | None) -> MemoryStream:
    """Return the `MemoryStream` that is given as mask, or one that begins a sequence x (B, T, M) with that mask."""
    if isinstance(mask, MemoryStream):
        return mask
    return MemoryStream(torch.ones(len(x), 1, x.size(1), dtype=torch.bool, device=x.device) if mask is None else mask)


def cut(x: Tensor, valid: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut a sequence into segments; the last one is padded.

    Args:
        x: (B, T, M).
        valid: Which frames are not padding, (B, T).
        length: Number of frames L of a segment.

    Returns:
        Segments (B, S, L, M) with S = ceil(T / L), and which of their frames are not padding, (B, S, L).
    """
    missing = -x.size(1) % length
    if missing:
        x, valid = F.pad(x, (0, 0, 0, missing)), F.pad(valid, (0, missing))
    return x.unflatten(1, (-1, length)), valid.unflatten(1, (-1, length))
