"""Steps of multi-head attention before and after the core."""

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.cores.softmax import Softmax
from espnet_diverse.attention.head_projections import HeadProjections
from espnet_diverse.scope import scope

SIZE, HEADS, WIDTH, TIME = 8, 2, 4, 5


def test_relative_position_equals_loops():
    """(q_i + u) . k_j + (q_i + v) . r_{i-j}, over sqrt(D); row n of the embeddings is distance T - 1 - n."""
    torch.manual_seed(0)
    module = build_attention("softmax", SIZE, HEADS, relative=True).double().eval()
    x, embeddings = torch.randn(1, TIME, SIZE).double(), torch.randn(1, 2 * TIME - 1, SIZE).double()
    with scope(keep_attention=True):
        module(x, x, x, embeddings, None)
    for h in range(HEADS):
        own = slice(h * WIDTH, (h + 1) * WIDTH)
        q, k, r = module.linear_q(x)[0, :, own], module.linear_k(x)[0, :, own], module.linear_pos(embeddings)[0, :, own]
        u, v = module.pos_bias_u[h], module.pos_bias_v[h]
        for i in range(TIME):
            logits = [(q[i] + u) @ k[j] + (q[i] + v) @ r[TIME - 1 - (i - j)] for j in range(TIME)]
            torch.testing.assert_close(module.attn[0, h, i], (torch.stack(logits) / WIDTH**0.5).softmax(-1))


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 8 is not a multiple of 3 heads; choose heads that divide it"):
        HeadProjections(8, 3, Softmax(8, 3))
