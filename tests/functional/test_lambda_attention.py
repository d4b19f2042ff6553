"""Lambda attention and its causal form against loops in double precision, golden arrays and gradients."""

import numpy as np
import pytest
import torch
from references import efficient as oracle
from references.golden import golden

from espnet_diverse.functional import lambda_attention as module
from espnet_diverse.functional.lambda_attention import (
    causal_lambda_attention,
    lambda_attention,
    masked_lambda_attention,
)
from espnet_diverse.functional.masks import causal

B, H, T, D, WIDTH = 2, 1, 9, 2, 3
VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1, 0, 0]], dtype=torch.bool).unsqueeze(1)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 4)


def given(draw):
    return draw.normal(B, H, T, D), draw.normal(B, H, T, D), draw.normal(B, H, T, WIDTH)


def looped(q, k, v, mask):
    """The oracle for each sample and head."""
    mask = mask.expand(B, H, q.size(2), k.size(2))
    parts = [
        [oracle.lambda_attention(*(x[b, h].detach().numpy() for x in (q, k, v, mask))) for h in range(H)]
        for b in range(B)
    ]
    return torch.tensor(np.array(parts))


FORMS = {
    "keys": (lambda q, k, v: lambda_attention(q, k, v, VALID.unsqueeze(2)), VALID.unsqueeze(2)),
    "no mask": (lambda_attention, torch.ones(1, 1, 1, T, dtype=torch.bool)),
    "pairs": (
        lambda q, k, v: masked_lambda_attention(q, k, v, VALID.unsqueeze(2) & causal(T)),
        VALID.unsqueeze(2) & causal(T),
    ),
    "causal": (lambda q, k, v: causal_lambda_attention(q, k, v, VALID), VALID.unsqueeze(2) & causal(T)),
    "causal, no padding": (causal_lambda_attention, causal(T).view(1, 1, T, T)),
}
each_form = pytest.mark.parametrize(("form", "mask"), FORMS.values(), ids=FORMS)


@each_form
def test_equals_loops(draw, form, mask):
    q, k, v = given(draw)
    torch.testing.assert_close(form(q, k, v).detach(), looped(q, k, v, mask))


@each_form
def test_gradcheck(draw, form, mask):
    assert torch.autograd.gradcheck(form, given(draw))


def test_golden():
    arrays = golden("random_features")
    q, k, v, expected = (arrays[name][None, None] for name in ("q", "k", "v", "lambda_out"))
    torch.testing.assert_close(lambda_attention(q, k, v), expected, atol=1e-10, rtol=1e-10)
    unscaled = arrays["lambda_out_unscaled"][None, None]
    torch.testing.assert_close(lambda_attention(q, k * 6**0.5, v), unscaled, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keys_of_any_size_do_not_change_earlier_queries(draw, dtype):
    q, k, v = (x.detach().to(dtype) for x in given(draw))
    before = causal_lambda_attention(q, k, v)
    k[:, :, 5:] *= 1e6
    after = causal_lambda_attention(q, k, v)
    torch.testing.assert_close(after[:, :, :5], before[:, :, :5])
    torch.testing.assert_close(after, masked_lambda_attention(q, k, v, causal(T).view(1, 1, T, T)))


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_any_mask_in_single_precision_whatever_the_distance_of_keys(draw, scale):
    q, k, v = (x.detach() for x in given(draw))
    mask = VALID.unsqueeze(2) & causal(T)
    exact = looped(q, k * scale, v, mask)
    found = masked_lambda_attention(q.float(), k.float() * scale, v.float(), mask)
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("apart", [30.0, 50.0, 100.0])
def test_gradients_in_single_precision_where_a_later_key_is_far_larger(draw, apart):
    """Z of the earlier queries is then small, and the gradient of q / Z has the square of 1 / Z."""
    q, k, v = (x.detach().requires_grad_() for x in given(draw))
    with torch.no_grad():
        k[:, :, -1] = apart * D**0.5
    mask = causal(T).view(1, 1, T, T)
    slope = draw.normal(B, H, T, WIDTH).detach()
    exact = torch.autograd.grad(masked_lambda_attention(q, k, v, mask), (q, k, v), slope)
    single = [x.detach().float().requires_grad_() for x in (q, k, v)]
    found = torch.autograd.grad(masked_lambda_attention(*single, mask), single, slope.float())
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-4)


def test_without_keys_all_is_zero_and_gradients_are_finite(draw):
    nothing = torch.zeros(B, 1, T, dtype=torch.bool)
    for form in (
        lambda q, k, v: lambda_attention(q, k, v, nothing.unsqueeze(2)),
        lambda q, k, v: masked_lambda_attention(q, k, v, nothing.unsqueeze(2).expand(-1, -1, T, -1)),
        lambda q, k, v: causal_lambda_attention(q, k, v, nothing),
    ):
        tensors = given(draw)
        context = form(*tensors)
        context.sum().backward()
        assert torch.equal(context, torch.zeros_like(context))
        assert all(torch.isfinite(x.grad).all() for x in tensors)
