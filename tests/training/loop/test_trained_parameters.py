import pytest
import torch
from torch import nn

from espnet_diverse.nets.adapters.low_rank import LowRankOptions, add_low_rank
from espnet_diverse.training.loop.trained_parameters import ParameterSample, trained_share


def net():
    return nn.ModuleDict({"encoder": nn.Sequential(nn.Linear(10, 99), nn.Linear(99, 2)), "ctc": nn.Linear(2, 3)})


def test_a_model_that_is_trained_as_a_whole():
    assert trained_share(net()) == "trained: all 1,298 parameters"


def test_parts_and_adapters():
    model = net()
    model["encoder"].requires_grad_(False)
    assert trained_share(model) == "trained: 9 of 1,298 parameters (0.69 %): encoder 0 of 1,289, ctc all 9"
    add_low_rank(model, LowRankOptions(rank=2, target_modules=["encoder.1"]))
    said = "trained: 211 of 1,500 parameters (14 %): encoder 0 of 1,289, adapter all 202, ctc all 9"
    assert trained_share(model) == said


@pytest.fixture
def model():
    return torch.nn.Linear(50, 40)


def test_one_parameter_that_changed_is_enough(model):
    sample = ParameterSample(model)
    assert sample.unchanged()
    with torch.no_grad():
        model.bias[7] += 1e-6
    assert not sample.unchanged()


def test_changes_that_round_to_nothing_are_none(model):
    torch.nn.init.zeros_(model.bias)
    sample = ParameterSample(model)
    with torch.no_grad():
        model.bias += 1e-30
    assert sample.unchanged()


def test_frozen_parameters_do_not_count(model):
    model.requires_grad_(False)
    model.bias.requires_grad_(True)
    sample = ParameterSample(model)
    with torch.no_grad():
        model.weight += 1
    assert sample.unchanged()
    assert ParameterSample(model.requires_grad_(False)).unchanged()
