"""Counting optimizer updates from inside a module."""

import copy

import pytest
import torch

from espnet_diverse.attention.update_counter import (
    UpdateCounter,
    counters_by_share,
    is_share,
    set_updates_of_run,
)
from espnet_diverse.scope import Step, scope


def test_counter_does_not_take_loading_for_an_update():
    counter, weight = UpdateCounter(), torch.nn.Linear(2, 2).weight
    counter(weight)
    with torch.no_grad():
        weight.zero_()
    counter.load_state_dict({"count": torch.tensor(0.0)})
    assert float(counter(weight)) == 0


def test_only_training_counts():
    counter, weight = UpdateCounter(), torch.zeros(1)
    counter(weight)
    for _ in range(2):  # an update, then weights that validation puts in their place
        weight.add_(1)
        assert float(counter.eval()(weight)) == 0
    assert float(counter.train()(weight)) == 1


def test_counter_continues_after_loading_as_if_there_had_been_no_stop():
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


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_counts_and_holds_large_numbers(kind):
    counter, weight = UpdateCounter(0.5).to(kind), torch.zeros(1, dtype=kind, requires_grad=True)
    set_updates_of_run(counter, 200_000)
    counter.count.fill_(70_000)
    for _ in range(3):
        counter(weight)
        with torch.no_grad():
            weight.add_(1)
    counter = copy.deepcopy(counter).half()
    assert (float(counter.count), float(counter.of_run), float(counter.length(0.5))) == (70_002, 200_000, 100_000)
    assert counter.double().count.dtype == torch.float64
    assert counter.to("meta").count.is_meta and counter.half().to_empty(device="cpu").count.dtype == torch.float64


def test_counter_leaves_the_format_version_of_the_state_dict_alone():
    """Every module has a `_version`, which PyTorch writes into the metadata of state dicts."""
    counter, weight = UpdateCounter(), torch.nn.Parameter(torch.zeros(2))
    counter(weight)
    assert counter.state_dict()._metadata[""] == {"version": 1}


def test_a_schedule_is_a_number_of_updates_or_a_share_of_the_run():
    model = torch.nn.ModuleList([UpdateCounter(0.1), UpdateCounter(None, 300)])
    assert UpdateCounter(300, 0.1).share == 0.1 and counters_by_share(UpdateCounter(300)) == []
    assert counters_by_share(model) == [model[0]] and "of_run" not in model[1].state_dict()
    set_updates_of_run(model, 5552)
    assert float(model[0].length(0.1)) == pytest.approx(555.2) and model[1].length(300) == 300
    assert [is_share(span) for span in (None, 0, 0.5, 1, 300)] == [False, False, True, False, False]


def test_a_share_needs_the_length_of_the_run_which_a_checkpoint_keeps():
    counter = UpdateCounter(0.5)
    with pytest.raises(ValueError, match=r"^a schedule of 0.5 is a share of the updates of a run, whose number is not"):
        counter.length(0.5)
    assert float(counter.eval().length(0.5)) == 1  # of a model that has not been trained
    set_updates_of_run(counter, 10)
    loaded = UpdateCounter(0.5)
    loaded.load_state_dict(counter.state_dict())
    assert float(loaded.length(0.5)) == 5


def test_a_run_without_updates_is_refused():
    with pytest.raises(ValueError, match="a run of 0 updates has no schedule; give at least 1"):
        set_updates_of_run(UpdateCounter(0.1), 0)


class Counting(torch.nn.Module):
    """A parameter and the counter of its updates."""

    def __init__(self):
        super().__init__()
        self.weight, self.updates = torch.nn.Parameter(torch.zeros(1)), UpdateCounter()

    def forward(self):
        return float(self.updates(self.weight))

    def update(self):
        with torch.no_grad():
            self.weight.add_(1)


@pytest.mark.parametrize("events", ["", "f", "fu", "fuf", "fuff", "fufu", "ffuufu", "fufuf", "u", "uf"])
def test_a_copy_counts_like_its_original(events):
    """After forward passes (f) and updates (u) in any order; some passes and updates later, both counts are equal."""
    model = Counting()
    for event in events:
        model() if event == "f" else model.update()
    other = copy.deepcopy(copy.deepcopy(model))
    for _ in range(3):
        assert other() == model()
        for each in (model, other):
            each.update()


def test_the_step_of_the_scope_is_the_count():
    counter, weight = UpdateCounter().train(), torch.zeros(1)
    for updates in (0, 0, 3):
        with scope(step=Step(updates, 7)), scope():
            assert float(counter(weight)) == updates
        weight.add_(1)
    with scope(step=Step(9, 0)):
        assert float(counter.eval()(weight)) == 3


def test_a_trained_count_continues_in_a_run_whose_steps_begin_at_0():
    """A resumed run is built from the same trained model, and then loads its own count."""
    trained, weight = UpdateCounter(0.5), torch.zeros(1)
    set_updates_of_run(trained, 100)
    trained.count.fill_(40)
    counters = [UpdateCounter(0.5) for _ in range(2)]
    for counter in counters:
        counter.load_state_dict(trained.state_dict())
        counter.mark_start()
        set_updates_of_run(counter, 10_000)
    counter, resumed = counters
    with scope(step=Step(3, 0)):
        assert float(counter(weight)) == 43 and float(counter.length(0.5)) == 50
    resumed.load_state_dict(counter.state_dict())
    with scope(step=Step(4, 0)):
        assert float(resumed(weight)) == float(counter(weight)) == 44 and float(resumed.length(0.5)) == 50


def test_a_frozen_parameter_needs_the_step():
    weight = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
    counter, trained = UpdateCounter(300), UpdateCounter(300)
    with pytest.raises(ValueError, match=r"a parameter that is frozen, .* open espnet_diverse.scope.scope\(step=Step"):
        counter(weight)
    with scope(step=Step(7, 7)):
        assert float(counter(weight)) == 7
    trained.load_state_dict({"count": torch.tensor(300.0)})
    assert [float(trained(weight)) for _ in range(2)] == [301, 301] and float(UpdateCounter(None)(weight)) == 0
