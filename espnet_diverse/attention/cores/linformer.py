"""Linformer: keys and values projected along time to a fixed number.

Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity".

    context = softmax(Q (E X W_k + b_k)^T / sqrt(D)) (F X W_v + b_v),    E, F (R, T_max)         (7)

As in the released code, E and F act on the input X of the attention, all heads share them, and the projections of the
heads follow: `compress` shortens X to R rows before `linear_k` and `linear_v` see it. Projecting first would give the
same only without biases, because E would multiply the bias b as well. In contrast to the released code, padded frames
are zeroed before E and F, see `functional/linformer.py`.

Every query attends to all R rows, each a mixture of all frames, and so there is neither a causal form nor a cache, and
keys cannot be masked afterwards.

Softmax-equivalent setting: none; E = F = I gives it for inputs of T_max = R frames, but E and F are learned.
Cost: O(T R M) time and O(T R) memory for R compressed rows; 2 R T_max parameters more than softmax attention, or
R T_max if keys and values share E.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads, Inputs
from espnet_diverse.attention.supports import Supports
from espnet_diverse.functional.linformer import project_time
from espnet_diverse.option_checks import flag, number


@dataclass(frozen=True)
class LinformerOptions(Core.Options):
    """Options of Linformer.

    Attributes:
        compressed_length: Number of rows R that keys and values are projected to; the paper finds 256 enough for 1,024
            positions.
        max_length: Maximum number of positions T_max of an input.
        shared: Whether keys and values share E, F = E (an option of the paper and of the released code).
    """

    compressed_length: int = number(256, least=1)
    max_length: int = number(1024, least=1)
    shared: bool = flag(False)


class Linformer(Core):
    """Softmax attention over keys and values that are projected along time. It has no weights over frames."""

    Options = LinformerOptions
    options: LinformerOptions
    supports = Supports(head_selection=True, dot_products=True, half_precision=True)
    linear = True

    def build(self) -> None:
        option = self.options
        self.supports = replace(type(self).supports, max_length=option.max_length)
        self.time_k = nn.Parameter(torch.empty(option.compressed_length, option.max_length))
        self.time_v = None if option.shared else nn.Parameter(torch.empty_like(self.time_k))

    def reset_parameters(self) -> None:
        """Draw E and F."""
        for projection in self.parameters():
            nn.init.xavier_uniform_(projection)

    def compress(self, inputs: Inputs, mask: Tensor | None) -> Inputs:
        """Project keys and values along time (7): (B, T, M) -> (B, R, M). A frame that no query may see is padding."""
        valid = None if mask is None else mask.any(dim=-2).squeeze(1)
        key = project_time(self.time_k, inputs.key, valid)
        if self.time_v is None and inputs.value is inputs.key:
            return Inputs(inputs.query, key, key)
        time_v = self.time_k if self.time_v is None else self.time_v
        return Inputs(inputs.query, key, project_time(time_v, inputs.value, valid))

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, T, D)."""
        return F.scaled_dot_product_attention(heads.q, heads.k, heads.v, dropout_p=heads.dropout), None
