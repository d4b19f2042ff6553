"""BigBird: window, global and random attention between blocks of positions.

Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences", section 2 and appendix D (blocks; the variant whose
global positions are part of the sequence).

    b(i) = floor(i / S)                                                                block of a position
    A(i) = {j : |b(i) - b(j)| <= w, or b(j) < g, or b(j) in R(b(i))},    A(i) = all j if b(i) < g
    context_i = sum_{j in A(i)} softmax_j(q_i . k_j / sqrt(D)) v_j                     (1) of Vaswani et al. 2017

R(n) are random blocks for block n, drawn from the blocks of its sequence outside its window and the global blocks. The
paper draws from all of these at once; here they are divided into |R| equal parts and one block is drawn from each, so
that no block is drawn twice. The draws depend on the seed, on n and on the length of the sequence without padding, so
they are the same in training, in evaluation and in every batch. In causal attention A(i) has no j > i, and R(n) are
earlier blocks.

Softmax-equivalent setting: a block that is as long as the longest sequence.
Cost: O(T (2 w + 1 + g + |R|) S D) time, and as much memory without D; the scores of all pairs exist only where weights
are needed. A step of cached decoding takes O(T D), because the cache keeps all keys.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.sparse import sparse_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.sparse_patterns import BigBirdBlocks
from espnet_diverse.option_checks import number


@dataclass(frozen=True)
class BigBirdOptions(Core.Options):
    """Options of BigBird.

    Attributes:
        block_size: Positions S in a block; 64 in the paper.
        window_blocks: Number w of neighbouring blocks on each side; 1 in the paper, "3 blocks" with the query's own.
        global_blocks: Number g of global blocks, the first of the sequence; 2 in the paper.
        random_blocks: Number of random blocks |R| of each block; 3 in the paper.
        seed: Seed of the random blocks.
    """

    block_size: int = number(64, least=1)
    window_blocks: int = number(1, least=0)
    global_blocks: int = number(2, least=0)
    random_blocks: int = number(3, least=0)
    seed: int = number(0, least=0)


class BigBird(Core):
    """Softmax attention to neighbouring, global and random blocks."""

    Options = BigBirdOptions
    options: BigBirdOptions
    # Positions of two sequences are not near each other.
    supports = replace(EVERYTHING, cross_attention=False, weighted_values=False)
    linear = True
    SOFTMAX_EQUIVALENT = {"block_size": 2**20}
    position_in_parts = True

    def build(self) -> None:
        chosen = self.options
        blocks = chosen.window_blocks, chosen.global_blocks, chosen.random_blocks
        self.pattern = BigBirdBlocks(chosen.block_size, *blocks, chosen.seed, self.causal)

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        if torch.jit.is_tracing():
            raise ValueError("attention 'bigbird' draws its random blocks by operations on integers that ONNX lacks")
        return sparse_attention(heads, self.pattern)
