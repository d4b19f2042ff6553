"""An attention with parts around its core, and its inputs, in double precision; the same each time."""

import torch

from espnet_diverse.attention import build_attention

SIZE, HEADS, TIME = 16, 4, 6
MASK = torch.arange(TIME) < torch.tensor([6, 4]).view(2, 1, 1)


def attention(core="softmax", **options):
    torch.manual_seed(0)
    return build_attention(core, SIZE, HEADS, **options).double()


def tokens(batch=2):
    return torch.randn(batch, TIME, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def projected(module, x):
    """Queries, keys and values by head (B, H, T, D)."""
    linears = (module.linear_q, module.linear_k, module.linear_v)
    return (linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for linear in linears)
