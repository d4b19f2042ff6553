"""Value residual: the values of the first layer are mixed into the values of all later layers.

Zhou et al. 2025, "Value Residual Learning" (ResFormer). The equations are numbered here; n is a layer.

    V'_n = a_n V_1 + b_n V_n,    V'_1 = V_1                                                                       (1)
    context_n = softmax(Q_n K_n^T / sqrt(D)) V'_n                                                                 (2)

V_1 is what `linear_v` of the first layer makes of its input. It goes from layer to layer in `Heads.stream`. In the
released code a and b are 1/2; here they are options, constants or the start of two numbers that each layer learns.
V_1 has the heads of the first layer in their order, with head selection too.

An encoder's layers hand on V_1. A decoder's layers do not, since cached decoding would have to keep V_1 for all layers;
the core is for encoders. It does not work with blocks of a streaming encoder, `layer_drop_rate` or `ctc_trim`. Where
`stochastic_depth_rate` skips the first layer, the others use only their own values. Outside an encoder, the attention
acts as a first layer, which is softmax attention.

Softmax-equivalent setting: first = 0 and own = 1; with learned = true until the first update.
Cost: softmax attention, by the fused kernel, and O(T M) time and memory; 2 parameters a layer if they are learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.option_checks import flag, number


@dataclass(frozen=True)
class ValueResidualOptions(Core.Options):
    """Options of value residual.

    Attributes:
        first: Weight a of the first layer's values.
        own: Weight b of the layer's own values.
        learned: Whether each layer learns its own a and b, initialised with these values.
    """

    first: float = number(0.5)
    own: float = number(0.5)
    learned: bool = flag(False)


class ValueResidual(Core):
    """Softmax attention over values to which the values of the first layer are added.

    Attributes:
        shares: a and b of (1), a parameter of shape (2,), in all layers but the first if they are learned, else None.
    """

    Options = ValueResidualOptions
    options: ValueResidualOptions
    supports = replace(EVERYTHING, causal=False, cached_decoding=False, cross_attention=False, weighted_values=False)
    only_logits = True
    SOFTMAX_EQUIVALENT = {"first": 0.0, "own": 1.0}

    def build(self) -> None:
        self.is_first = True
        self.shares: nn.Parameter | None = None

    def connect(self, cores: Sequence[Core]) -> bool:
        """Let the first layer hand on its values to the others."""
        for core in cores[1:]:
            if isinstance(core, ValueResidual):
                core.is_first = False
                if self.options.learned:
                    core.shares = nn.Parameter(torch.tensor([float(self.options.first), float(self.options.own)]))
        return True

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, T, D), and weights (B, H, T, T) if needed, else None."""
        stream = heads.stream
        if stream is not None and self.is_first:
            stream.state = heads.v
        elif stream is not None and stream.state is not None:
            heads = replace(heads, v=self._mixed(stream.state, heads.v))
        return softmax_attention(heads)

    def _mixed(self, first: Tensor, values: Tensor) -> Tensor:
        """Compute (1)."""
        a, b = (self.options.first, self.options.own) if self.shares is None else self.shares.unbind()
        return a * first + b * values
