"""Softmax attention of encoders whose heads learn which pattern of keys they need.

Each head h mixes P patterns of `functional/head_patterns.py`, which names their papers, by gates; M_p(i, j) is 1 if
pattern p lets query i attend to key j, else 0. The equations are ours.

    g_h = softmax_p(gamma_h / tau)                                                     gates of head h              (1)
    S_h(i, j) = sum_p g_hp M_p(i, j)                                                   share of a pair              (2)
    A_h(i, j) = S_h(i, j) exp(q_i . k_j / sqrt(D)) / sum_j' S_h(i, j') exp(q_i . k_j' / sqrt(D))    weights         (3)

gamma (H, P) starts as 0. The temperature tau falls exponentially from 1 to `tau_final` in `tau_steps` updates, so that
in the end a small difference of gamma decides for one pattern. `prune` keeps the pattern of the largest gate of each
head as `head_patterns`, for this model or for another training.

Head selection over a pool of heads with patterns chooses patterns too, but each candidate has projections of its own
there, and only the selected one is compared; here all patterns of a head share queries, keys and values.

Softmax-equivalent setting: `patterns: [global]`.
Cost: softmax attention with a matrix of biases of all pairs, and O(P T^2) for it; H P parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.head_patterns import HeadPatterns, build_head_patterns, head_patterns
from espnet_diverse.attention.supports import Supports
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.head_patterns import gated_bias
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.option_checks import number
from espnet_diverse.scope import current


@dataclass(frozen=True)
class PatternGatesOptions(Core.Options):
    """Options of gates over patterns.

    Attributes:
        patterns: The P patterns that each head chooses from, as in `head_patterns`.
        tau_final: Temperature (1) after `tau_steps`.
        tau_steps: Number of updates in which the temperature falls from 1, or a share of the run.
    """

    patterns: Sequence[Any] = field(default=("global", "previous", "next", {"window": 1}, {"window": 2}), hash=False)
    tau_final: float = number(0.1, above=0, most=1)
    tau_steps: float = number(4000.0, above=0)

    def __post_init__(self):
        super().__post_init__()
        head_patterns(self.patterns)


class PatternGates(Core):
    """Softmax attention over pairs that gates of patterns weight."""

    Options = PatternGatesOptions
    options: PatternGatesOptions
    supports = Supports(relative_position=True, explicit_weights=True, dot_products=True, half_precision=True)
    SOFTMAX_EQUIVALENT = {"patterns": ["global"]}

    def build(self) -> None:
        patterns = head_patterns(self.options.patterns)
        self.patterns = build_head_patterns(patterns, len(patterns))
        self.gates = nn.Parameter(torch.empty(self.heads, len(patterns)))
        self.updates = UpdateCounter(self.options.tau_steps)

    def reset_parameters(self) -> None:
        """Set gamma to 0."""
        nn.init.zeros_(self.gates)

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and weights (B, H, Tq, Tk) if needed, else None, (1) to (3)."""
        pairs = replace(heads, patterns=self.patterns).allowed()  # (B or 1, P, Tq, Tk)
        assert pairs is not None  # there are patterns
        gates = torch.softmax(in_full_precision(self.gates) / self._tau(), dim=-1)
        if (shared := current()).collect and shared.statistics:
            shared.add_stat("largest_gate", gates.detach().amax(-1).mean())
        bias, allowed = gated_bias(gates, pairs)
        bias = bias.to(heads.q.dtype) * heads.q.size(-1) ** 0.5
        position = bias if heads.position is None else heads.position + bias
        return softmax_attention(replace(heads, position=position.expand(len(heads.q), -1, -1, -1), mask=allowed))

    def chosen(self) -> HeadPatterns:
        """Return the pattern of the largest gate of each head."""
        return self.patterns.of(self.gates.argmax(-1))

    def _tau(self) -> Tensor:
        updates = self.updates(self.gates)
        return self.options.tau_final ** (updates / self.updates.length(self.options.tau_steps)).clamp(max=1)
