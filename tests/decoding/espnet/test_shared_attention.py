"""ESPnet's attention gives what it gives, while another thread may replace the weights that it leaves."""

from copy import deepcopy

import pytest
import torch

from espnet_diverse.decoding.espnet.shared_attention import share_attention
from espnet_diverse.upstream.layers import MultiHeadedAttention, RelPositionMultiHeadedAttention

BATCH, TIME, WIDTH, HEADS = 2, 5, 8, 2
OF_ANOTHER_THREAD = torch.zeros(BATCH, HEADS, TIME, TIME)


class Contended(MultiHeadedAttention):
    """Another thread replaces the weights whenever they are stored."""

    attn = property(lambda self: OF_ANOTHER_THREAD, lambda self, weights: None)


class ContendedRelative(RelPositionMultiHeadedAttention):
    """The same with relative position."""

    attn = Contended.attn


def masks():
    lengths = torch.tensor([TIME, 3])
    keys = (torch.arange(TIME) < lengths[:, None]).unsqueeze(1)
    return {"none": None, "keys": keys, "causal": keys & torch.ones(TIME, TIME).tril().bool()}


@pytest.mark.parametrize("mask", masks().values(), ids=masks())
@pytest.mark.parametrize(
    ("espnets", "contended"),
    [(MultiHeadedAttention, Contended), (RelPositionMultiHeadedAttention, ContendedRelative)],
)
def test_weights_of_another_thread_are_not_taken(espnets, contended, mask):
    torch.manual_seed(0)
    alone, shared = espnets(HEADS, WIDTH, 0.0).eval(), contended(HEADS, WIDTH, 0.0).eval()
    shared.load_state_dict(alone.state_dict())
    x = torch.randn(BATCH, TIME, WIDTH)
    position = [torch.randn(1, 2 * TIME - 1, WIDTH)] if espnets is RelPositionMultiHeadedAttention else []
    expected = alone(x, x, x, *position, mask)
    assert not torch.equal(shared(x, x, x, *position, mask), expected)
    share_attention(shared)
    assert torch.equal(shared(x, x, x, *position, mask), expected)


@torch.no_grad()
def test_the_weights_are_left_for_plots_and_a_copy_is_of_its_own():
    torch.manual_seed(0)
    module, x = MultiHeadedAttention(HEADS, WIDTH, 0.0).eval(), torch.randn(BATCH, TIME, WIDTH)
    module(x, x, x, None)
    expected, module.attn = module.attn, None
    share_attention(module)
    module(x, x, x, None)
    assert torch.equal(module.attn, expected)
    copied = deepcopy(module)
    copied.linear_out.weight.zero_()
    copied.linear_out.bias.zero_()
    assert copied(x, x, x, None).abs().max() == 0 and module(x, x, x, None).abs().max() > 0
