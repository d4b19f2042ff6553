"""Your own core: softmax over cosines, selected by its name in a configuration. No other file needs a change.

    python examples/own_core.py train --config model/small,examples/own_core.yaml ...

runs `espnet-diverse train` with this core registered. With the folder of this file in PYTHONPATH, and own_core in
ESPNET_DIVERSE_CORES, all commands and recipes know the core.
"""

import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.attention import Core, Heads, Supports, register_core
from espnet_diverse.bin.main import main


@register_core("cosine")
class Cosine(Core):
    """Scaled cosine attention, Henry et al. 2020, "Query-Key Normalization for Transformers", equation (6).

    A_ij = softmax_j(g cos(q_i, k_j)),    context = A V,    g: a learned scale per head
    """

    supports = Supports()  # only self-attention over padded batches

    @dataclass(frozen=True)
    class Options(Core.Options):
        """scale: Initial g."""

        scale: float = 10.0

    def build(self) -> None:
        """Make the parameters."""
        self.scale = nn.Parameter(torch.full((self.heads, 1, 1), self.options.scale))

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Heads -> context (B, H, Tq, D)."""
        q, k = F.normalize(heads.q, dim=-1), F.normalize(heads.k, dim=-1)
        scores = self.scale * (q @ k.transpose(-2, -1))  # (B, H, Tq, Tk)
        if heads.mask is not None:
            scores = scores.masked_fill(~heads.mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        return F.dropout(weights, heads.dropout) @ heads.v, None


if __name__ == "__main__":
    sys.exit(main())
