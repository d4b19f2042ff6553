import copy

import pytest
import torch
from torch import nn

from espnet_diverse.cpu.fast_convolution import FastConvolution, fuse_convolutions
from espnet_diverse.functional.linear import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="PyTorch without oneDNN")


def layers(**options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, 2), nn.ReLU(), nn.Conv2d(6, 4, 3, **options), nn.ReLU(), nn.Conv2d(4, 2, 1)
    ).eval()


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"padding": 1, "stride": (2, 1)}, {"dilation": 2, "bias": False}, {"groups": 2}]
)
@pytest.mark.parametrize("shape", [(1, 1, 17, 20), (3, 1, 40, 80), (1, 1, 400, 80)])
def test_results_and_parameters_stay(options, shape):
    model = layers(**options)
    before = copy.deepcopy(model)
    fuse_convolutions(model)
    assert [type(layer) for layer in model] == [FastConvolution, nn.Identity] * 2 + [nn.Conv2d]
    assert model.state_dict().keys() == before.state_dict().keys()
    assert model[0].weight is dict(model.named_parameters())["0.weight"] and not model[0].training
    x = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(model(x), before(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(x), before(x), rtol=0, atol=0)  # with gradients PyTorch's own


def test_gradients_and_other_precision_take_pytorchs_own():
    model = layers()
    fuse_convolutions(model)
    model(torch.randn(1, 1, 12, 12)).sum().backward()
    assert model[0].weight.grad is not None
    with torch.no_grad():
        assert model.double()(torch.randn(1, 1, 12, 12).double()).dtype == torch.float64


def test_unsupported_convolutions_are_left_unchanged():
    other = nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.ReLU(), nn.Conv2d(2, 2, 3).double(), nn.ReLU())
    padded = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), nn.ReLU())
    for model in (other, padded):
        fuse_convolutions(model)
        assert not any(isinstance(layer, FastConvolution) for layer in model)
