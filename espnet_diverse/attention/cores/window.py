"""Sliding window attention, dilated or not, with global positions.

Beltagy et al. 2020, "Longformer: The Long-Document Transformer", section 3.1.

    A(i) = {j : |i - j| <= w r, i - j divisible by r}                                  sliding (r = 1), dilated window
    A(i) = {j : ...} u {j < g},    A(i) = all j for i < g                              global + window
    context_i = sum_{j in A(i)} softmax_j(q_i . k_j / sqrt(D)) v_j                     (1) of Vaswani et al. 2017

In causal attention A(i) has no j > i. Global positions are projected like the others; Longformer has separate
projections for them.

Softmax-equivalent setting: a window that is as wide as the longest sequence.
Cost: O(T w D) time and O(T (w + D)) memory for any dilation, and O(T g D) time for g global positions. The scores of
all pairs exist only where weights are needed. A step of cached decoding takes O(T D), because the cache keeps all keys.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.sparse import sparse_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.sparse_patterns import Sliding
from espnet_diverse.option_checks import number


@dataclass(frozen=True)
class WindowOptions(Core.Options):
    """Options of sliding window attention.

    Attributes:
        window: Number of positions w on each side that a position attends to. After subsampling by 4, 25 are a second.
        dilation: Distance r of the positions of the window; 1 is a window without gaps.
        global_tokens: Number g of positions, the first of the sequence, that attend to all and that all attend to.
    """

    window: int = number(64, least=0)
    dilation: int = number(1, least=1)
    global_tokens: int = number(0, least=0)


class Window(Core):
    """Softmax attention to the positions near a query, and to global ones."""

    Options = WindowOptions
    options: WindowOptions
    # Positions of two sequences are not near each other.
    supports = replace(EVERYTHING, cross_attention=False, weighted_values=False)
    SOFTMAX_EQUIVALENT = {"window": 2**20, "dilation": 1}
    linear = position_in_parts = True

    def build(self) -> None:
        chosen = self.options
        self.pattern = Sliding(chosen.window, chosen.dilation, chosen.global_tokens, self.causal)

    @property
    def reach(self) -> int | None:
        """The width of the window; global positions attend to all."""
        return None if self.options.global_tokens else self.options.window * self.options.dilation

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        return sparse_attention(heads, self.pattern)
