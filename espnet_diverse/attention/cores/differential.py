"""Differential attention: the difference of two softmax maps, each of half of the width.

Ye et al. 2025, "Differential Transformer". The equations are numbered here; parts of them are in
`functional/differential.py`.

    context = (softmax(Q_1 K_1^T / sqrt(D / 2)) - lambda softmax(Q_2 K_2^T / sqrt(D / 2))) V                      (1)
    lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init                                (2)
    norm(x) = w * x / sqrt(mean(x^2) + 1e-5)                                                                      (3)
    context' = (1 - lambda_init) norm(context)                                                                    (4)

Q_1 and Q_2 are the halves of a head's queries along its width D, K_1 and K_2 the halves of its keys; V has the whole
width. All heads of a layer share the four vectors of (2), which start from N(0, 0.1^2), and w of (3), which starts from
1. A head that is as wide as two heads of a softmax attention has the widths of the paper, which halves the number of
heads. lambda_init is 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l = 1, 2, ... of a net, or a constant. A core that is in no
net has that of the first layer.

The maps are computed by the fused kernel, one after the other, with the other half of the queries set to 0: kernels
want queries as wide as values. Dropout acts on each map. There are no explicit weights: the weights of (1) may be
negative, and do not sum to 1. Terms of relative position are halved as queries and keys are.

Softmax-equivalent setting: none, because each map has half of the width.
Cost: twice the cost of softmax attention, with memory in the same cases; 3 D parameters.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.modifiers.lambda_init import LambdaInit
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.differential import difference_weight, head_norm
from espnet_diverse.option_checks import number


@dataclass(frozen=True)
class DifferentialOptions(Core.Options):
    """Options of differential attention.

    Attributes:
        lambda_init: Number lambda_init of (2) and (4) in all layers; by default it depends on the layer.
    """

    lambda_init: float | None = number(None, least=0, below=1)


class Differential(Core):
    """Difference of two softmax attentions over the halves of queries and keys."""

    Options = DifferentialOptions
    options: DifferentialOptions
    supports = replace(EVERYTHING, explicit_weights=False, dot_products=False, weighted_values=False)  # of halves
    position_in_parts = only_logits = True
    halves: Tensor

    def build(self) -> None:
        if self.width % 2:
            raise ValueError(f"heads of width {self.width} have no halves; choose a number of heads for an even width")
        half = self.width // 2
        self.lambda_q, self.lambda_k = nn.Parameter(torch.empty(2, half)), nn.Parameter(torch.empty(2, half))
        self.norm = nn.Parameter(torch.empty(self.width))
        self.lambda_init = LambdaInit(self.options.lambda_init)
        self.register_buffer("halves", torch.eye(2).repeat_interleave(half, dim=1), persistent=False)

    def reset_parameters(self) -> None:
        """Draw the vectors of (2), and set w of (3) to 1."""
        nn.init.normal_(self.lambda_q, std=0.1)
        nn.init.normal_(self.lambda_k, std=0.1)
        nn.init.ones_(self.norm)

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, Tq, D)."""
        scale = math.sqrt(2)  # logits are divided by sqrt(D), and should be by sqrt(D / 2)
        first, second = (self._context(heads, scale * half.to(heads.q.dtype)) for half in self.halves)
        initial = self.lambda_init.value
        context = first - difference_weight(self.lambda_q, self.lambda_k, initial) * second
        return (1 - initial) * head_norm(context, self.norm), None

    def _context(self, heads: Heads, half: Tensor) -> Tensor:
        """Compute the context (B, H, Tq, D) of one map; half (D,) has the factor of each channel of the queries."""
        term = heads.position_term
        position = None if term is None else term._replace(q=term.q * half).matrix()
        half_heads = replace(heads, q=heads.q * half, position=position, position_term=None, need_weights=False)
        return softmax_attention(half_heads)[0]
