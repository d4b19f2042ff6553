"""Memory equipped self-attention (SAN-M): softmax attention plus a convolution over the values.

Gao et al. 2020, "SAN-M: Memory Equipped Self-Attention for End-to-End Speech Recognition". The equations are numbered
here, (1) is in `functional/sanm.py`.

    M_t = v_t + sum_{k=0}^{K-1} f_k * v_{t + k - floor((K - 1) / 2)}                         (1)
    context = softmax(Q K^T / sqrt(D)) V + M                                                 (2)

The memory block M sees K neighbouring positions, attention all of them. M is added before the output projection, so
that it belongs to a head as the context does; in FunASR's implementation, whose K is 11, it is added after the
projection. Values at padding are set to zero before the convolution. The dropout of the attention weights acts on M
too. The weights are the softmax's alone.

A memory block over both sides has no causal form and no cache; this core is for encoders. With head selection the
filters belong to the places of the heads.

Softmax-equivalent setting: start = zero and residual = false, until the first update.
Cost: softmax attention, by the fused kernel, and O(T K M) time; K M parameters.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.attention.token_masks import key_side_mask
from espnet_diverse.functional.sanm import memory_block
from espnet_diverse.option_checks import choice, flag, number


@dataclass(frozen=True)
class SANMOptions(Core.Options):
    """Options of SAN-M.

    Attributes:
        kernel_size: Number of positions K that the memory block sees; after subsampling by 4, a second has 25.
        residual: Whether (1) has its first term, the value itself.
        start: Initial f: "drawn" like PyTorch's convolutions, or "zero".
    """

    kernel_size: int = number(11, least=1)
    residual: bool = flag(True)
    start: str = choice("drawn", "zero")


class SANM(Core):
    """Softmax attention plus a memory block over the values."""

    Options = SANMOptions
    options: SANMOptions
    supports = replace(EVERYTHING, causal=False, cached_decoding=False, cross_attention=False, weighted_values=False)
    only_logits = True
    SOFTMAX_EQUIVALENT = {"residual": False, "start": "zero"}

    def build(self) -> None:
        self.filters = nn.Parameter(torch.empty(self.size, self.options.kernel_size))

    def reset_parameters(self) -> None:
        """Draw f, or set it to zero."""
        bound = 0.0 if self.options.start == "zero" else self.options.kernel_size**-0.5
        nn.init.uniform_(self.filters, -bound, bound)

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, T, D), and the weights of the softmax (B, H, T, T) if needed, else None."""
        context, weights = softmax_attention(heads)
        memory = memory_block(heads.v, self.filters, key_side_mask(heads), self.options.residual)
        return context + F.dropout(memory, heads.dropout), weights
