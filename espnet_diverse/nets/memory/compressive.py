"""Compressed memory: Rae et al., "Compressive Transformers for Long-Range Sequence Modelling", ICLR 2020.

    keys and values of segment t: compressed memory (N_c) (+) memory (N) (+) S_t
    memory: the last N inputs of the layer; the frames that leave it are compressed, c into one: convolution, mean, max
    compressed memory: the last N_c of those

No gradient passes to earlier segments. The convolution learns from the attention-reconstruction loss alone (see
`functional/compressive.py`), whose inputs and attention get no gradient from it.
Cost: O(T (N_c + N + L)) time, c M^2 parameters for each memory with the convolution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from espnet_diverse.attention import AuxiliaryLoss, MultiHeadAttention
from espnet_diverse.attention.cores.softmax import masked_softmax
from espnet_diverse.functional.compressive import pooled, reconstruction_loss
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.nets.memory.base import Memory, MemoryOptions, Slots, empty, joined
from espnet_diverse.option_checks import choice, must_be, number
from espnet_diverse.scope import current


@dataclass(frozen=True)
class CompressiveOptions(MemoryOptions):
    """Options of the compressed memory besides `MemoryOptions`.

    Attributes:
        slots: Number N of uncompressed frames, a multiple of `ratio`.
        compressed_slots: Number N_c of compressed frames.
        ratio: Number c of frames that are compressed into one; divides `segment`.
        compression: "conv", a convolution with stride c, "mean" or "max".
        mem_weight: Weight of the attention-reconstruction loss; "mean" and "max" have nothing to learn and no loss.
    """

    slots: int = number(8, least=1)
    compressed_slots: int = number(8, least=1)
    ratio: int = number(4, least=1)
    compression: str = choice("conv", "mean", "max")
    mem_weight: float = number(1.0, least=0)

    def __post_init__(self):
        super().__post_init__()
        for name in ("segment", "slots"):
            if getattr(self, name) % self.ratio:
                raise must_be(name, f"a multiple of ratio {self.ratio}", getattr(self, name))

    @property
    def keys(self) -> int:
        """Number of keys that the memory adds to a segment's own."""
        return self.slots + self.compressed_slots


class CompressiveState(NamedTuple):
    """The two memories.

    Attributes:
        values: Last inputs of the layer (B, N, M).
        valid: Which of them exist, (B, N).
        compressed: Compressed inputs from before (B, N_c, M).
        filled: Which of them exist, (B, N_c).
    """

    values: Tensor
    valid: Tensor
    compressed: Tensor
    filled: Tensor


class CompressiveMemory(Memory):
    """The last inputs of a layer, and before them compressed ones."""

    Options = CompressiveOptions
    options: CompressiveOptions
    LOSSES = {"memory_reconstruction": AuxiliaryLoss("mem_weight")}

    def __init__(self, size: int, heads: int, options: CompressiveOptions):
        super().__init__(size, heads, options)
        if options.compression == "conv":
            self.convolution = nn.Conv1d(size, size, options.ratio, stride=options.ratio)

    def begin(self, batch: int, like: Tensor) -> CompressiveState:
        """Return empty memories."""
        numbers = (self.options.slots, self.options.compressed_slots)
        return CompressiveState(*(x for number in numbers for x in empty(batch, number, self.size, like)))

    def slots(self, state: CompressiveState) -> Slots:
        """Return both memories, in the order of time."""
        return joined(Slots(state.compressed, state.filled), Slots(state.values, state.valid))

    def update(self, state: CompressiveState, code: Sequence[Tensor], valid: Tensor) -> CompressiveState:
        """Add the frames of the segment, and compress the frames that leave the memory."""
        (segment,) = code
        frames = joined(Slots(state.values, state.valid), Slots(segment, valid))
        new = self.compress(frames.cut(None, segment.size(1)))
        compressed = joined(Slots(state.compressed, state.filled), new)
        return CompressiveState(
            *frames.cut(-self.options.slots, None), *compressed.cut(-self.options.compressed_slots, None)
        )

    def compress(self, frames: Slots) -> Slots:
        """Compress every c frames (B, T, M) into one, which is filled if all of them are."""
        option = self.options
        if option.compression == "conv":
            values = self.convolution(frames.values.transpose(1, 2)).transpose(1, 2)
        else:
            values = pooled(frames.values, option.ratio, option.compression)
        return Slots(values, frames.valid.unflatten(1, (-1, option.ratio)).all(-1))

    def losses(
        self, states: Sequence[CompressiveState], code: Sequence[Tensor], valid: Tensor, attention: MultiHeadAttention
    ) -> None:
        """Add the attention-reconstruction loss, if the compression has something to learn."""
        if self.options.compression != "conv":
            return
        (segments,) = code
        values, filled = (torch.stack(parts, 1) for parts in list(zip(*states[:-1], strict=True))[:2])
        flat = [x.detach().flatten(0, 1) for x in (values, filled, segments, valid)]
        queries, counted = flat[2:]
        old = joined(Slots(*flat[:2]), Slots(*flat[2:])).cut(None, segments.size(2))
        new = self.compress(old)
        with torch.no_grad():
            expected = read_from(attention, queries, old)
        actual = read_from(attention, queries, new)
        counted = counted & new.valid.any(-1, keepdim=True)
        with torch.autocast(segments.device.type, enabled=False):
            loss = reconstruction_loss(in_full_precision(expected), in_full_precision(actual), counted)
        current().add_loss("memory_reconstruction", self.options.mem_weight * loss)


def read_from(attention: MultiHeadAttention, queries: Tensor, slots: Slots) -> Tensor:
    """Attend from queries (B, Tq, M) to slots by content, with softmax -> (B, H, Tq, D); no weight gets a gradient."""

    def project(linear: nn.Module, x: Tensor) -> Tensor:
        fixed = {name: value.detach() for name, value in linear.named_parameters()}
        projected = functional_call(linear, fixed, (x,))
        return projected.unflatten(-1, (attention.h, -1)).transpose(1, 2)

    q = project(attention.linear_q, queries)
    k, v = project(attention.linear_k, slots.values), project(attention.linear_v, slots.values)
    scores = q @ k.transpose(-2, -1) / math.sqrt(attention.d_k)
    return masked_softmax(scores, slots.valid[:, None, None]) @ v
