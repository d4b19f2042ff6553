import pytest
import torch

from espnet_diverse.functional.linear import AVAILABLE, arranged, column_major, has_bfloat16, linear, product

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this PyTorch has no oneDNN")


def both(x, weight, bias):
    """Output and gradients of ours, and those of PyTorch's map in double precision."""
    ends = []
    for function, dtype in ((linear, torch.float32), (torch.nn.functional.linear, torch.float64)):
        leaves = [
            tensor if tensor is None else tensor.to(dtype).detach().requires_grad_() for tensor in (x, weight, bias)
        ]
        y = function(*leaves)
        y.sin().sum().backward()
        ends.append([y.detach(), *(leaf.grad for leaf in leaves if leaf is not None)])
    return ends


@pytest.mark.parametrize("out", [4, 5, 9])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5), (2, 2, 3, 5)])
def test_output_and_gradients_match_a_linear_map(shape, has_bias, out):
    generator = torch.manual_seed(1)
    x, weight = torch.randn(shape, generator=generator), torch.randn(out, 5, generator=generator)
    bias = torch.randn(out, generator=generator) if has_bias else None
    ours, expected = both(x, weight, bias)
    for found, value in zip(ours, expected, strict=True):
        torch.testing.assert_close(found, value.float(), atol=1e-5, rtol=1e-5)


def test_rows_need_not_be_contiguous():
    generator = torch.manual_seed(2)
    x = torch.randn(5, 3, 2, generator=generator).transpose(0, 2)
    weight = torch.randn(4, 5, generator=generator)
    torch.testing.assert_close(linear(x, weight), x @ weight.t(), atol=1e-5, rtol=1e-5)
    x = x.requires_grad_()
    linear(x, weight).transpose(0, 1).sum().backward()  # a gradient whose strides are 0
    torch.testing.assert_close(x.grad, weight.sum(0).expand(2, 3, 5), atol=1e-5, rtol=1e-5)


def test_a_frozen_weight_gets_no_gradient(monkeypatch):
    monkeypatch.setattr("espnet_diverse.functional.linear._of_weight", None)  # nor is one computed
    x, weight = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5)
    linear(x, weight, torch.zeros(4)).sum().backward()
    assert weight.grad is None
    torch.testing.assert_close(x.grad, weight.sum(0).expand(3, 5), atol=1e-5, rtol=1e-5)


def test_columns_of_a_copy_are_contiguous():
    weight = torch.randn(4, 5, requires_grad=True)
    copy = column_major(weight)
    assert copy.stride() == (1, 4) and not copy.requires_grad and torch.equal(copy, weight)


@pytest.mark.parametrize("rows", [1, 10, 700])
def test_arranged_weights_give_the_same(rows):
    generator = torch.manual_seed(4)
    x, weight = torch.randn(rows, 40, generator=generator), torch.randn(24, 40, generator=generator)
    bias = torch.randn(24, generator=generator)
    torch.testing.assert_close(product(x, arranged(weight), bias), x @ weight.t() + bias, atol=1e-5, rtol=1e-5)
    if has_bfloat16():
        half = product(x.bfloat16(), arranged(weight.bfloat16()), bias.bfloat16())
        torch.testing.assert_close(half.float(), x @ weight.t() + bias, atol=0.3, rtol=0.05)
