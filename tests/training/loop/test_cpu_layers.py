import pytest
import torch
from torch import nn

from espnet_diverse.functional import dropout as dropout_module
from espnet_diverse.functional import linear as linear_module
from espnet_diverse.training.loop.cpu_layers import fast_on_cpu


class Product(nn.Linear):
    """A subclass, whose forward may be another."""


@pytest.fixture
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Sequential(Product(8, 8), nn.Linear(8, 3)))


@pytest.fixture
def counted(monkeypatch):
    """How often either quick form was computed."""
    counts = {"linear": 0, "dropout": 0}
    for name, function in (("linear", linear_module._Linear), ("dropout", dropout_module._Dropout)):

        def counting(*args, name=name, apply=function.apply):
            counts[name] += 1
            return apply(*args)

        monkeypatch.setattr(function, "apply", counting)
    return counts


def test_fast_layers_compute_inside_the_block_and_usual_ones_after_it(model, counted):
    before = [dict(vars(module)) for module in model.modules()]
    x = torch.randn(4, 6)
    with fast_on_cpu(model):
        model(x)
        assert counted == {"linear": 2, "dropout": 1}
        model.eval()(x)
        assert counted == {"linear": 4, "dropout": 1}
        model.train()
    model(x)
    assert counted == {"linear": 4, "dropout": 1}
    assert [set(vars(module)) for module in model.modules()] == [set(variables) for variables in before]


def test_output_and_gradients_stay(model):
    model[2].p = 0.0
    x = torch.randn(4, 6)
    ends = []
    for quick in (True, False):
        model.zero_grad()
        if quick:
            with fast_on_cpu(model):
                loss = model(x).pow(2).sum()
        else:
            loss = model(x).pow(2).sum()
        loss.backward()
        ends.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(*ends, atol=1e-6, rtol=1e-5)


def test_hooks_are_called(model):
    seen = []
    model[0].register_forward_hook(lambda *_: seen.append("hook"))
    with fast_on_cpu(model):
        model(torch.randn(2, 6))
    assert seen == ["hook"]


def test_unsupported_inputs_use_the_usual_layers(model, counted):
    with fast_on_cpu(model):
        with torch.autocast("cpu", torch.bfloat16):
            assert model(torch.randn(4, 6)).dtype == torch.bfloat16
        model[0](torch.randn(0, 6))
        model.double()(torch.randn(4, 6, dtype=torch.float64))
        assert counted == {"linear": 0, "dropout": 2}
        model[2].p = 1.0
        assert not model[2](torch.ones(3)).any()
        model[2].p, model[2].inplace = 0.5, True
        x = torch.ones(3)
        assert model[2](x) is x and counted["dropout"] == 2


def test_blocks_within_one_another(model, counted):
    with fast_on_cpu(model), fast_on_cpu(model):
        model(torch.randn(4, 6))
    assert counted == {"linear": 2, "dropout": 1}
    assert all("forward" not in vars(module) for module in model.modules())


def test_layers_of_a_compiled_module_are_not_replaced(model, counted):
    model[3].compile(backend="eager")
    with fast_on_cpu(model):
        model(torch.randn(4, 6))
    assert counted == {"linear": 1, "dropout": 1}


def test_a_module_in_two_places(model, counted):
    twice = nn.Sequential(model[0], nn.ReLU(), nn.Linear(8, 6), model[0])
    with fast_on_cpu(twice):
        twice(torch.randn(4, 6))
    assert counted["linear"] == 3
    assert all("forward" not in vars(module) for module in twice.modules())
