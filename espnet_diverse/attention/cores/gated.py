"""Softmax attention with a gate on the context of each head.

Qiu et al. 2025, "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free": a
sigmoid gate behind scaled dot-product attention, computed from the input of the queries. The equations are numbered
here.

    context = softmax(Q K^T / sqrt(D)) V                                                                          (1)
    G = s sigmoid(X W)         X: inputs of the queries (Tq, M); W (M, H D), or (M, H)                            (2)
    context' = G * context     a gate for each channel, or one for all channels of a head                         (3)

The paper has s = 1. With W = 0 at the start and s = 2 all gates are exactly 1, so that a model begins as softmax
attention, for example as a trained model that is adopted. W has no bias, and belongs to the places of the heads: with
head selection the heads of a pool share it.

Softmax-equivalent setting: start = zero and scale = 2, until the first update.
Cost: softmax attention, by the fused kernel, and O(Tq M^2) time for gates of channels, O(Tq M H) for gates of heads;
M^2 or M H parameters.
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.option_checks import choice, number


@dataclass(frozen=True)
class GatedOptions(Core.Options):
    """Options of gated attention.

    Attributes:
        per: One gate for each "channel" of a head, or for each "head".
        start: Initial W: "drawn" like other projections, or "zero": all gates are half of `scale`.
        scale: Maximum gate s of (2); 1 in the paper.
    """

    per: str = choice("channel", "head")
    start: str = choice("drawn", "zero")
    scale: float = number(1.0, above=0)


class Gated(Core):
    """Softmax attention whose context is multiplied by a gate of the query."""

    Options = GatedOptions
    options: GatedOptions
    supports = replace(EVERYTHING, weighted_values=False)
    only_logits = True
    SOFTMAX_EQUIVALENT = {"start": "zero", "scale": 2.0}

    def build(self) -> None:
        self.gate = nn.Linear(self.size, self.size if self.options.per == "channel" else self.heads, bias=False)

    def reset_parameters(self) -> None:
        """Set W to zero if it starts there."""
        if self.options.start == "zero":
            nn.init.zeros_(self.gate.weight)

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the gated context (B, H, Tq, D), and the weights of (1) (B, H, Tq, Tk) if needed, else None."""
        context, weights = softmax_attention(heads)
        return self.gates(heads.query) * context, weights

    def gates(self, query: Tensor) -> Tensor:
        """Compute the gates (2): inputs of the queries (B, Tq, M) -> (B, H, Tq, D or 1)."""
        return self.options.scale * self.gate(query).unflatten(-1, (self.heads, -1)).transpose(1, 2).sigmoid()
