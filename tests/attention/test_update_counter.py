"""Counting optimizer updates from inside a module."""

import torch

from espnet_diverse.attention.update_counter import UpdateCounter


def test_counter_does_not_take_loading_for_an_update():
    counter, weight = UpdateCounter(), torch.nn.Linear(2, 2).weight
    counter(weight)
    with torch.no_grad():
        weight.zero_()
    counter.load_state_dict({"count": torch.tensor(0.0)})
    assert float(counter(weight)) == 0


def test_counter_goes_on_after_loading_as_if_there_had_been_no_stop():
    straight, weight = UpdateCounter(), torch.nn.Linear(2, 2).weight
    resumed = UpdateCounter()
    for step in range(6):
        straight(weight)
        with torch.no_grad():
            weight.add_(1)
        if step == 2:  # a checkpoint is written between an update and the next forward pass
            resumed.load_state_dict(straight.state_dict())
    for _ in range(3):
        resumed(weight)
        with torch.no_grad():
            weight.add_(1)
    assert float(resumed.count) == float(straight.count) == 5


def test_counter_leaves_the_format_version_of_the_state_dict_alone():
    """Every module has a `_version`, which PyTorch writes into the metadata of state dicts."""
    counter, weight = UpdateCounter(), torch.nn.Parameter(torch.zeros(2))
    counter(weight)
    assert counter.state_dict()._metadata[""] == {"version": 1}
