"""Attention of the Reformer: positions whose queries and keys have the same hash attend to each other.

Kitaev et al. 2020, "Reformer: The Efficient Transformer", section 2; the equations are in `functional/lsh.py`.

    k_j = q_j / |q_j|                                                        with `tied`
    context_i = softmax over the chunk of i and the chunk before, in any of the rounds, without i itself

A hash is a random rotation; positions are sorted by it and cut into chunks. The paper draws rotations for each batch.
Here they are drawn once and saved, so that the same input has the same output. It is for encoders: the chunk of a
position depends on all others, so there is no causal form and no cached decoding here.

Softmax-equivalent setting: keys of their own, and a chunk that is as long as the longest sequence.
Cost: O(R T (m (D + R) + log T)) time and O(R T (m + D)) memory for R rounds and chunks of m positions.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.supports import Supports
from espnet_diverse.functional.lsh import hash_buckets, lsh_attention, sorted_positions
from espnet_diverse.option_checks import flag, number


@dataclass(frozen=True)
class ReformerOptions(Core.Options):
    """Options of the attention of the Reformer.

    Attributes:
        chunk_size: Positions m in a chunk.
        rounds: Number of hashes R.
        half_buckets: Half the number of buckets of a hash.
        tied: Whether the keys are the queries at length 1, and `linear_k` is `linear_q`; a position then attends to
            itself only if there is no other. Otherwise keys are projected and sorted by themselves.
    """

    chunk_size: int = number(64, least=1)
    rounds: int = number(2, least=1)
    half_buckets: int = number(16, least=1)
    tied: bool = flag(True)


class Reformer(Core):
    """Softmax attention within chunks of positions with similar hashes. It has no weights over frames.

    Attributes:
        bits: The rotations (R, D, n / 2), float32, as int32, because an average of checkpoints would change them.
    """

    Options = ReformerOptions
    options: ReformerOptions
    supports = Supports(head_selection=True)
    SOFTMAX_EQUIVALENT = {"chunk_size": 2**20, "tied": False}
    linear = True
    continuous = False
    bits: Tensor

    def build(self) -> None:
        self.tied = "keys" if self.options.tied else ""
        rotations = torch.randn(self.options.rounds, self.width, self.options.half_buckets, dtype=torch.float32)
        self.register_buffer("bits", rotations.view(torch.int32))

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, T, D)."""
        if torch.jit.is_tracing():
            raise ValueError("attention 'reformer' has a number of chunks that depends on the length; ONNX fixes it")
        time = heads.k.size(2)
        size = min(self.options.chunk_size, time)
        valid = torch.arange(time, device=heads.k.device) < heads.lengths().unsqueeze(1)
        v = heads.v.masked_fill(~valid[:, None, :, None], 0.0)
        k = F.normalize(heads.k, dim=-1) if self.tied else heads.k
        q, k, v = (F.pad(x, (0, 0, 0, -time % size)) for x in (heads.q, k, v))
        valid = F.pad(valid, (0, -time % size))
        rotations = self.bits.view(torch.float32).to(q.dtype)
        order = sorted_positions(hash_buckets(q, rotations), valid)
        of_keys = order if self.tied else sorted_positions(hash_buckets(k, rotations), valid)
        context = lsh_attention(q, k, v, (order, of_keys), valid, size, bool(self.tied), heads.dropout)
        return context[:, :, :time], None
