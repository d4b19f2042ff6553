"""Attention in blocks equals attention under the mask of the pattern: oracle, golden arrays, gradients."""

import pytest
import torch
from references import efficient
from references.golden import golden

from espnet_diverse.functional import block_sparse
from espnet_diverse.functional.block_sparse import block_sparse_attention
from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.sparse_patterns import BigBirdBlocks, Sliding

GOLDEN = golden("sparse_masks")
B, H, T, D = 2, 2, 13, 3
LENGTHS = torch.tensor([13, 6])
PADDED = (torch.arange(T) < LENGTHS.unsqueeze(1)).view(B, 1, 1, T)
PATTERNS = [Sliding(2), Sliding(1, 3, (range(2),)), Sliding(2, 2, (range(1),), causal=True)]
PATTERNS += [Sliding(1, 3, (range(1), range(4, 6))), Sliding(2, 1, (range(5, 6),), causal=True)]
PATTERNS += [BigBirdBlocks(2, random=1)]
PATTERNS += [BigBirdBlocks(1, 0, 0, 2, causal=True)]
each_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


def given(draw, pattern):
    q, k, v = (draw.normal(B, H, T, D) for _ in range(3))
    return q, k, v, pattern.blocks(T, LENGTHS), PADDED & causal(T) if pattern.causal else PADDED


@each_pattern
def test_gradcheck(draw, pattern):
    blocks, mask = pattern.blocks(7, LENGTHS[1:]), PADDED[1:, :, :, :7] & causal(7)
    tensors = [draw.normal(1, 1, 7, 2) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda q, k, v: block_sparse_attention(q, k, v, blocks, mask), tensors)


@each_pattern
def test_portions_change_nothing(draw, pattern, monkeypatch):
    *tensors, blocks, mask = given(draw, pattern)
    whole = block_sparse_attention(*tensors, blocks, mask)
    monkeypatch.setattr(block_sparse, "_portion", lambda device: 1)
    with torch.no_grad():
        torch.testing.assert_close(block_sparse_attention(*tensors, blocks, mask), whole)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("window_w3", Sliding(3)),
        ("window_w2_dil3", Sliding(2, 3)),
        ("window_w3_causal", Sliding(3, causal=True)),
        ("window_w2_dil2_causal", Sliding(2, 2, causal=True)),
        ("global_window_w2_g0_7", Sliding(2, global_runs=(range(1), range(7, 8)))),
        ("full_when_w_ge_n", Sliding(25)),
    ],
)
def test_golden(name, pattern):
    i = torch.arange(20)
    allowed = pattern.allows(i.unsqueeze(1), i, torch.tensor(20))
    assert torch.equal(allowed & causal(20) if pattern.causal else allowed, GOLDEN[name])
    q, k, v = (GOLDEN[x].view(1, 1, 20, 8) for x in "qkv")
    mask = causal(20).view(1, 1, 20, 20) if pattern.causal else None
    context = block_sparse_attention(q, k, v, pattern.blocks(20, torch.tensor([20])), mask)
    torch.testing.assert_close(context[0, 0], GOLDEN[f"out_{name}"], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1, 1, T), (B, 1, T, T), (1, 1, T, 1), (B, 1, T, 1)])
def test_masks_broadcast(draw, shape):
    pattern = Sliding(2, global_runs=(range(1), range(6, 8)))
    q, k, v, blocks, _ = given(draw, pattern)
    mask = torch.rand(shape, generator=draw.generator) < 0.6
    seen = torch.tensor(efficient.window_mask(T, **vars(pattern))) & mask
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen)
    torch.testing.assert_close(block_sparse_attention(q, k, v, blocks, mask), expected)


def test_dropout_acts_on_the_weights(draw):
    q, k, v, blocks, mask = given(draw, PATTERNS[0])
    torch.manual_seed(0)
    dropped = block_sparse_attention(q, k, torch.ones_like(v), blocks, mask, dropout=0.5)  # the sums of the weights
    assert not torch.allclose(dropped, block_sparse_attention(q, k, torch.ones_like(v), blocks, mask))
    torch.testing.assert_close(dropped, dropped[..., :1].expand_as(dropped))


def test_queries_that_see_nothing_give_zero_and_finite_gradients(draw):
    q, k, v, blocks, _ = given(draw, PATTERNS[0])
    context = block_sparse_attention(q, k, v, blocks, torch.zeros(B, 1, 1, T, dtype=torch.bool))
    context.sum().backward()
    assert torch.equal(context, torch.zeros_like(context))
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
