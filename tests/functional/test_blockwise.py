"""Block-wise attention against loops and against its dense twin."""

import pytest
import torch
from references import sdma as oracle
from torch.utils._python_dispatch import TorchDispatchMode

from espnet_diverse.functional import blockwise
from espnet_diverse.functional.blockwise import sdma_attention
from espnet_diverse.functional.masks import causal, lengths_to_mask
from espnet_diverse.functional.mixed_attention import dense, mixed_weights

B, H, TQ, TK, D, E, C = 2, 3, 5, 6, 4, 2, 3

#: Scores in a block: all in one, whole samples, whole heads, rows of one head, one row. None takes the plain path.
WHOLE = B * H * TQ * TK
BLOCKS = {"plain": None, "all": 2 * WHOLE, "samples": H * TQ * TK, "heads": 2 * TQ * TK, "rows": 2 * TK, "row": 1}
SOME_ROWS_EMPTY = (torch.arange(TQ * TK).view(TQ, TK) % 7 < 4) & (torch.arange(TQ) != 2).unsqueeze(1)
MASKS = {
    "none": None,
    "keys": lengths_to_mask(torch.tensor([6, 3]), TK).view(B, 1, 1, TK),
    "no key": lengths_to_mask(torch.tensor([4, 0]), TK).view(B, 1, 1, TK),
    "causal": causal(TK)[:TQ],
    "each query": SOME_ROWS_EMPTY,
    "each head": torch.stack([SOME_ROWS_EMPTY, ~SOME_ROWS_EMPTY, SOME_ROWS_EMPTY]),
}


@pytest.fixture(params=BLOCKS.values(), ids=BLOCKS)
def blocks(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(blockwise, "block_size", lambda device: request.param)


def inputs(draw, batch=(B, H)):
    return (
        draw.normal(*batch, TQ, D),
        draw.normal(*batch, TK, D),
        draw.normal(*batch, TK, E),
        draw.posterior(*batch, TQ, C),
        draw.posterior(*batch, TK, C),
    )


def compare(result, expected, tensors, draw):
    """Values and all gradients agree."""
    torch.testing.assert_close(result, expected, atol=1e-10, rtol=1e-10)
    direction = draw.normal(*result.shape).detach()
    ours, theirs = (torch.autograd.grad(y, tensors, direction, retain_graph=True) for y in (result, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_equals_loops(draw, blocks, mask, gamma):
    q, k, v, p_query, p_key = inputs(draw)
    bias = draw.normal(H, TQ, TK)
    context = sdma_attention(q, k, v, p_query, p_key, gamma, mask, bias=bias)
    twin = dense(q, k, v, p_query, p_key, gamma, mask, bias=bias)
    weights = mixed_weights(q, k, p_query, p_key, gamma, mask, bias=bias)
    seen = torch.ones(B, H, TQ, TK, dtype=torch.bool) if mask is None else mask.expand(B, H, TQ, TK)
    for b in range(B):
        for h in range(H):
            own = [x[b, h].detach().numpy() for x in (q, k, p_query, p_key)]
            expected = torch.tensor(
                oracle.mixed_attention(*own, gamma, seen[b, h].numpy(), D**-0.5, bias[h].detach().numpy())
            )
            torch.testing.assert_close(weights[b, h], expected)
            torch.testing.assert_close(context[b, h], expected @ v[b, h])
    torch.testing.assert_close(context, twin)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradients_match_the_dense_twin(draw, blocks, mask):
    tensors = *inputs(draw), draw.normal(B, 1, TQ, TK)
    arguments = *tensors[:5], torch.tensor(0.6, dtype=torch.float64), mask, tensors[5]
    compare(sdma_attention(*arguments), dense(*arguments), tensors, draw)


@pytest.mark.parametrize("mask", [MASKS["none"], MASKS["each query"]], ids=["none", "each query"])
@pytest.mark.parametrize("function", [sdma_attention, dense], ids=["blocks", "dense"])
def test_gradcheck(draw, monkeypatch, function, mask):
    monkeypatch.setattr(blockwise, "block_size", lambda device: 2 * TK)
    tensors = *inputs(draw, (1, 2)), draw.normal(1, 2, TQ, TK)
    assert torch.autograd.gradcheck(lambda *x: function(*x[:5], 0.6, mask, x[5]), tensors)


@pytest.mark.parametrize("batch", [(H,), (2, 2, H)], ids=str)
def test_any_leading_dimensions(draw, blocks, batch):
    tensors = inputs(draw, batch)
    compare(sdma_attention(*tensors, 0.6, MASKS["causal"]), dense(*tensors, 0.6, MASKS["causal"]), tensors, draw)


def test_leading_dimensions_broadcast(draw, blocks):
    q, p_query = draw.normal(B, H, TQ, D), draw.posterior(B, 1, TQ, C)
    k, v, p_key = draw.normal(1, H, TK, D), draw.normal(H, TK, E), draw.posterior(TK, C)
    tensors = q, k, v, p_query, p_key
    compare(sdma_attention(*tensors, 0.6), dense(*tensors, 0.6), tensors, draw)


def test_heads_sliced_from_a_wider_tensor_and_inputs_left_alone(draw, blocks):
    wide = [draw.normal(B, TK, H, width) for width in (D, D, E)]
    p = draw.posterior(B, TK, H, C)
    copies = [x.clone() for x in (*wide, p)]
    tensors = *(x.transpose(1, 2) for x in wide), p.transpose(1, 2)
    whole = *(x.contiguous() for x in tensors[:3]), *[tensors[3].contiguous()] * 2
    compare(sdma_attention(*tensors, tensors[3], 0.6), dense(*whole, 0.6), (*wide, p), draw)
    assert all(torch.equal(x, copy) for x, copy in zip((*wide, p), copies, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_queries_without_keys_and_clusters_without_match_stay_finite(blocks, dtype, draw):
    q, k, v, p_query, p_key = (x.detach().to(dtype) for x in inputs(draw))
    p_query, p_key = torch.zeros_like(p_query), torch.zeros_like(p_key)
    p_query[..., 0], p_key[..., 1] = 1, 1  # (2) and (10) are 0/0
    tensors = [x.requires_grad_() for x in (q * 200, k * 200, v, p_query, p_key)]  # scores in the ten thousands
    mask = MASKS["no key"]
    context = sdma_attention(*tensors, 0.9, mask)
    assert context[1].abs().max() == 0
    plain = torch.nn.functional.scaled_dot_product_attention(*(x[:1] for x in tensors[:3]), mask[:1])
    torch.testing.assert_close(context[:1], plain)
    gradients = torch.autograd.grad(context.square().sum(), tensors)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert all(gradient[1].abs().max() == 0 for gradient in gradients)


def test_masked_keys_have_no_influence(draw, blocks):
    q, k, v, p_query, p_key = inputs(draw)
    arguments = p_query, p_key, 0.6, causal(TK)[:TQ]
    context = sdma_attention(q, k, v, *arguments)
    gradients = torch.autograd.grad(context[..., :3, :].square().sum(), (k, v, p_key))
    assert all(gradient[..., 3:, :].abs().max() == 0 for gradient in gradients)
    later = torch.arange(TK).view(TK, 1) >= 3
    changed = sdma_attention(q, torch.where(later, 900.0, k), torch.where(later, -7.0, v), *arguments)
    assert torch.equal(changed[..., :3, :], context[..., :3, :])


def test_float16_and_integer_masks_are_refused(draw, blocks):
    tensors = inputs(draw)
    with pytest.raises(ValueError, match="attention in torch.float16 is too coarse; give float32 or float64"):
        sdma_attention(*(x.half() for x in tensors), 0.6)
    with pytest.raises(ValueError, match="the mask is torch.int64; give bool, True = may attend"):
        sdma_attention(*tensors, 0.6, torch.ones(TQ, TK, dtype=torch.int64))


class _Largest(TorchDispatchMode):
    """Number of elements of the largest tensor that an operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.untyped_storage().nbytes() // x.element_size())
        return result


def test_never_more_than_three_blocks_of_scores(monkeypatch):
    """Forward and backward of 10,000 scores a head, in blocks of 2,000."""
    monkeypatch.setattr(blockwise, "block_size", lambda device: 2000)
    q, k, v = (torch.randn(1, 2, 100, 8, requires_grad=True) for _ in range(3))
    p = torch.rand(1, 2, 100, 4).softmax(-1).requires_grad_()
    with _Largest() as largest:
        sdma_attention(q, k, v, p, p, 0.5, torch.ones(100, dtype=torch.bool)).sum().backward()
    assert largest.elements == 3 * 2000
