"""A few entries of each parameter tell whether training has changed a model."""

import pytest
import torch

from espnet_diverse.training.loop.parameter_sample import ParameterSample


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
