import copy
import weakref

import pytest
import torch
from torch import nn

from espnet_diverse.attention import build_attention
from espnet_diverse.cpu.fast_linear import FastLinear, replace_linear, speed_up
from espnet_diverse.cpu.linear_kernels import taken
from espnet_diverse.functional.linear import AVAILABLE
from espnet_diverse.upstream.layers import PositionwiseFeedForward

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this PyTorch has no oneDNN")


@pytest.fixture(params=["onednn", "columns"], autouse=True)
def library(request):
    """Either of the copies."""
    with taken(dict.fromkeys(("search small", "search large"), request.param)):
        yield request.param


def test_results_stay_and_one_copy_of_the_weights(library):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8, bias=False)).eval()
    before = copy.deepcopy(model)
    speed_up(model)
    assert isinstance(model[0], FastLinear) and not model[0].training and model[0].onednn == (library == "onednn")
    assert [name for name, _ in model.named_parameters()] == ["0.bias"]
    for shape in ((1, 24), (5, 7, 24), (3, 200, 24)):
        x = torch.randn(shape)
        with torch.inference_mode():
            torch.testing.assert_close(model(x), before(x), rtol=1e-5, atol=1e-5)
    assert torch.equal(model[2].weight, before[2].weight) and model[2].weight is model[2].weight


def test_gradients_and_other_precision_take_pytorchs_own():
    plain, x = nn.Sequential(nn.Linear(6, 4)), torch.randn(2, 6, requires_grad=True)
    model = copy.deepcopy(plain)
    speed_up(model)
    (found,), (expected,) = (torch.autograd.grad(net(x).sum(), x) for net in (model, plain))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model(x), plain(x))
    with torch.no_grad():
        assert model.double()(torch.randn(2, 6).double()).dtype == torch.float64


def test_compiled_layers_stay_as_they_are():
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 4)), nn.Linear(4, 4))
    model[0].compile(backend="eager")
    speed_up(model)
    assert type(model[0][0]) is nn.Linear and type(model[1]) is FastLinear


def test_projections_of_selected_heads_stay_as_they_are():
    selection = {"strategy": "static", "pool": 4, "conditions": {"lang": ["ar", "de"]}}
    model = nn.Sequential(build_attention("softmax", 16, 2, selection=selection), build_attention("softmax", 16, 2))
    speed_up(model)
    assert type(model[0].linear_q) is nn.Linear and type(model[0].linear_out) is FastLinear
    assert type(model[1].linear_q) is FastLinear


def test_a_model_in_double_precision_is_left_alone():
    model = nn.Sequential(nn.Linear(6, 4)).double()
    speed_up(model)
    assert type(model[0]) is nn.Linear


def test_layers_are_left_alone_if_pytorchs_own_are_the_fastest():
    model = nn.Sequential(nn.Linear(6, 4))
    with taken({"search small": "mkl"}):
        speed_up(model)
    assert type(model[0]) is nn.Linear


def test_relu_of_a_feed_forward_is_computed_with_its_first_layer():
    torch.manual_seed(0)
    model = nn.Sequential(PositionwiseFeedForward(24, 40, 0.1), PositionwiseFeedForward(24, 40, 0.1, nn.SiLU())).eval()
    before, x = copy.deepcopy(model), torch.randn(5, 7, 24)
    speed_up(model)
    assert type(model[0].activation) is nn.Identity and type(model[1].activation) is nn.SiLU
    with torch.inference_mode():
        torch.testing.assert_close(model(x), before(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(x), before(x), rtol=0, atol=0)  # with gradients PyTorch's own


def test_weights_that_are_replaced_are_freed_one_by_one():
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))
    weights = [weakref.ref(layer.weight) for layer in model]
    alive = []

    def make(linear):
        alive.append(sum(weight() is not None for weight in weights))
        return nn.Identity()

    replace_linear(model, make)
    assert alive == [4, 3, 2, 1]
