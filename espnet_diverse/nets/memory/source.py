"""Memory of the encoder's output: what cross-attention by segments reads instead of the whole output.

With H_s segment s of the encoder's output, n their number in a sequence, and M_s the memory after H_s,

    keys and values of every query: M_{n-1} (+) H_n.

It is what a query of the last segment would read, so that a segment as long as the source gives the whole source. One
memory serves all layers, because they read the same H. It is made once for each source, after which a query costs
O(N + L), however long the source is. Gradients pass to the encoder through all segments: H is available as a whole, and
if a memory ended the gradients, the encoder would learn from the last segment alone.
"""

import torch
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.memory.base import Memory
from espnet_diverse.nets.memory.segments import cut


class SourceMemory(nn.Module):
    """Shortens the encoder's output to the slots of a memory and the last segment.

    Args:
        memory: The memory.
    """

    def __init__(self, memory: Memory):
        super().__init__()
        self.memory = memory

    def forward(self, source: Tensor, lengths: Tensor, attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
        """Compute what cross-attention reads.

        Args:
            source: Encoder output (B, T, M).
            lengths: Number of its frames (B,).
            attention: A cross-attention of the decoder, for the losses of the memory.

        Returns:
            Filled slots before frames, in the order of time, (B, K, M), and the number of both, (B,).
        """
        segment, lengths = self.memory.options.segment, lengths.to(source.device)
        segments, valid = cut(source, lengths_to_mask(lengths, source.size(1)), segment)
        slots, _ = self.memory.read(segments, valid, attention, truncated=False)
        last = torch.arange(len(source), device=source.device), (lengths - 1).clamp(min=0) // segment
        values = torch.cat([slots.values[last], segments[last]], 1)
        mask = torch.cat([slots.valid[last], valid[last]], 1)
        counts = mask.sum(1)
        order = mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
        return values.gather(1, order.unsqueeze(-1).expand(-1, -1, values.size(-1))), counts
