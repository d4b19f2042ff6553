"""Talking-heads attention: linear maps across the heads before and after the softmax.

Shazeer et al. 2020, "Talking-Heads Attention". The equations are numbered here.

    J_h = Q_h K_h^T / sqrt(D)                  logits of each head                                                (1)
    L_g = sum_h P_l[h, g] J_h                  logits, mixed across heads                                         (2)
    W_g = softmax(L_g)                         weights                                                            (3)
    U_h = sum_g P_w[g, h] W_g                  weights, mixed across heads                                        (4)
    context_h = U_h V_h                                                                                           (5)

The paper lets the numbers of heads in (1), (3) and (5) differ; here they are equal, and P_l and P_w (H, H). They start
as identity, so that the core begins as softmax attention, or are drawn. A mask acts in (3). The weights that are
returned are W, whose rows sum to 1; dropout acts on U. With head selection P_l and P_w belong to the places of the
heads.

Softmax-equivalent setting: before = false and after = false; also start = identity, until the first update.
Cost: softmax attention without the fused kernel, O(Tq Tk (D + H)) time for each head, and O(Tq Tk) memory for each of
J, L, W and U; 2 H^2 parameters.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import masked_softmax, softmax_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.option_checks import choice, flag


@dataclass(frozen=True)
class TalkingHeadsOptions(Core.Options):
    """Options of talking-heads attention.

    Attributes:
        before: Whether the logits are mixed (2).
        after: Whether the weights are mixed (4).
        start: Initial P_l and P_w: "identity", or "drawn" like weights of other layers.
    """

    before: bool = flag(True)
    after: bool = flag(True)
    start: str = choice("identity", "drawn")


class TalkingHeads(Core):
    """Softmax attention whose heads exchange logits and weights."""

    Options = TalkingHeadsOptions
    options: TalkingHeadsOptions
    supports = replace(EVERYTHING, weighted_values=False)
    SOFTMAX_EQUIVALENT = {"before": False, "after": False}

    def build(self) -> None:
        self.of_logits = nn.Parameter(torch.empty(self.heads, self.heads)) if self.options.before else None
        self.of_weights = nn.Parameter(torch.empty(self.heads, self.heads)) if self.options.after else None

    def reset_parameters(self) -> None:
        """Set P_l and P_w to identity, or draw them."""
        for maps in self.parameters():
            if self.options.start == "identity":
                nn.init.eye_(maps)
            else:
                nn.init.xavier_uniform_(maps)

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and the weights W (B, H, Tq, Tk) if needed, else None."""
        if self.of_logits is None and self.of_weights is None:
            return softmax_attention(heads)
        weights = masked_softmax(_across_heads(heads.scores(), self.of_logits), heads.allowed())
        mixed = F.dropout(_across_heads(weights, self.of_weights), heads.dropout)
        return mixed @ heads.v, weights if heads.need_weights else None


def _across_heads(x: Tensor, maps: Tensor | None) -> Tensor:
    """Compute (2) or (4): x (B, H, Tq, Tk), maps (H, H) from the first to the second dimension -> (B, H, Tq, Tk)."""
    return x if maps is None else (maps.t() @ x.flatten(2)).view_as(x)
