"""Rows without keys, also with a kernel that does not know them."""

import pytest
import torch
import torch.nn.functional as F

from espnet_diverse.functional.fused_attention import attention_of_open_rows, fused_attention

ALLOWED = torch.rand(2, 1, 6, 5, generator=torch.Generator().manual_seed(0)) < 0.4
ALLOWED[0, :, 1:3], ALLOWED[1] = False, False
CLOSED = ~ALLOWED.any(-1).expand(2, 3, 6)
assert CLOSED.any() and not CLOSED.all()


@pytest.fixture
def refuses_closed_rows(monkeypatch):
    """A kernel whose context and gradients are NaN in all positions, if a row sees no key."""
    kernel = F.scaled_dot_product_attention

    def broken(q, k, v, mask=None, dropout=0.0):
        seen = mask if mask.dtype == torch.bool else mask > -torch.inf
        context = kernel(q, k, v, mask, dropout)
        return context if seen.any(-1).all() else context * torch.nan

    monkeypatch.setattr(F, "scaled_dot_product_attention", broken)


def tensors(dtype):
    random = torch.Generator().manual_seed(1)
    return [torch.randn(2, 3, n, 4, generator=random).to(dtype).requires_grad_() for n in (6, 5, 5)]


def masks(dtype):
    bias = torch.randn(2, 3, 6, 5, generator=torch.Generator().manual_seed(2)).to(dtype)
    logits = torch.zeros(ALLOWED.shape, dtype=dtype).masked_fill(~ALLOWED, -torch.inf)
    return [(ALLOWED, 0.0), (logits, 0.0), (bias.masked_fill(~ALLOWED, -torch.inf), bias)]


def by_definition(q, k, v, bias):
    scores = (q @ k.mT / q.size(-1) ** 0.5 + bias).masked_fill(~ALLOWED, -1e9)
    return scores.softmax(-1).masked_fill(~ALLOWED, 0.0) @ v


@pytest.mark.parametrize("form", range(3), ids=["mask", "logits", "position"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_without_keys_have_no_context_and_no_gradient_whatever_the_kernel(refuses_closed_rows, dtype, form):
    (mask, bias), inputs = masks(dtype)[form], tensors(dtype)
    context = attention_of_open_rows(*inputs, mask)
    gradients = torch.autograd.grad(context.square().sum(), inputs)
    assert context.dtype == dtype and not context[CLOSED].any() and not gradients[0][CLOSED].any()
    double = [x.detach().double().requires_grad_() for x in inputs]
    expected = by_definition(*double, bias)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.1, "atol": 0.1}
    torch.testing.assert_close(context.double(), expected, **close)
    for found, true in zip(gradients, torch.autograd.grad(expected.square().sum(), double), strict=True):
        torch.testing.assert_close(found.double(), true, **close)


def test_the_term_of_positions_gets_no_gradient_there(refuses_closed_rows):
    bias = masks(torch.float32)[2][1].requires_grad_()
    inputs = tensors(torch.float32)
    attention_of_open_rows(*inputs, bias.masked_fill(~ALLOWED, -torch.inf)).square().sum().backward()
    assert bias.grad.isfinite().all() and bias.grad[ALLOWED.expand_as(bias)].any()
    assert not bias.grad[CLOSED].any()


@pytest.mark.parametrize("form", range(3), ids=["mask", "logits", "position"])
def test_the_kernel_of_the_cpu_gives_the_same_without_help(form):
    (mask, bias), inputs = masks(torch.float32)[form], tensors(torch.float32)
    context = fused_attention(*inputs, mask)
    (gradient,) = torch.autograd.grad(context.square().sum(), inputs[:1])
    assert not context[CLOSED].any() and not gradient[CLOSED].any()
    torch.testing.assert_close(context, by_definition(*inputs, bias))
    assert torch.equal(fused_attention(*inputs), F.scaled_dot_product_attention(*inputs))
