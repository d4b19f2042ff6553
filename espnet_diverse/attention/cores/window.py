"""Sliding window attention, dilated or not, with global positions.

Beltagy et al. 2020, "Longformer: The Long-Document Transformer", section 3.1.

    A(i) = {j : |i - j| <= w r, i - j divisible by r}                                  sliding (r = 1), dilated window
    A(i) = {j : ...} u G,    A(i) = all j for i in G                                   global + window
    context_i = sum_{j in A(i)} softmax_j(q_i . k_j / sqrt(D)) v_j                     (1) of Vaswani et al. 2017

G are the first g positions, or g chosen ones. In causal attention A(i) has no j > i. Global positions are projected
like the others; Longformer has separate projections for them.

Softmax-equivalent setting: a window that is as wide as the longest sequence.
Cost: O(T w D) time and O(T (w + D)) memory for any dilation, and O(T g D) time for g global positions. The scores of
all pairs exist only where weights are needed. A step of cached decoding takes O(T D), because the cache keeps all keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from torch import Tensor

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.sparse import sparse_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.sparse_patterns import Sliding
from espnet_diverse.option_checks import Rule, must_be, number


@dataclass(frozen=True)
class WindowOptions(Core.Options):
    """Options of sliding window attention.

    Attributes:
        window: Number of positions w on each side that a position attends to. After subsampling by 4, 25 are a second.
        dilation: Distance r of the positions of the window; 1 is a window without gaps.
        global_tokens: Positions that attend to all and that all attend to: a number g, for the first g of the sequence,
            or a list, such as [0, 7]. Positions after the end of a sequence are ignored.
    """

    window: int = number(64, least=0)
    dilation: int = number(1, least=1)
    global_tokens: int | Sequence[int] = number(0, least=0, of=Rule(int, least=0))

    def __post_init__(self):
        super().__post_init__()
        chosen = self.global_tokens
        if not isinstance(chosen, int) and len(set(chosen)) < len(chosen):
            raise must_be("global_tokens", "a list of different positions", chosen)

    def global_runs(self) -> tuple[range, ...]:
        """Return the global positions as runs of consecutive ones."""
        chosen = self.global_tokens
        ordered = enumerate(range(chosen) if isinstance(chosen, int) else sorted(chosen))
        runs = [[position for _, position in run] for _, run in groupby(ordered, lambda pair: pair[1] - pair[0])]
        return tuple(range(run[0], run[-1] + 1) for run in runs)


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
        self.pattern = Sliding(chosen.window, chosen.dilation, chosen.global_runs(), self.causal)

    @property
    def reach(self) -> int | None:
        """The width of the window; global positions attend to all."""
        return None if self.options.global_tokens else self.options.window * self.options.dilation

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None."""
        return sparse_attention(heads, self.pattern)
