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
