"""A checkpoint within an epoch restores what it was made of."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from espnet2.train.reporter import Reporter, SubReporter

from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.errors import TrainingError
from espnet_diverse.training import checkpoint
from espnet_diverse.training.run_state import (
    Names,
    Position,
    RunState,
    check_finite,
    generator_states,
    restore_generators,
    restore_statistics,
    statistics_of,
)


def draws():
    return random.random(), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))


def state_of(folder, lr=0.1, weight=1.0):
    """The state of a run of a model with one parameter."""
    model = torch.nn.Linear(1, 1)
    model.weight.data.fill_(weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    state = RunState(folder, model, [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)])
    state.reporter = Reporter(epoch=2)
    state.reporter.stats = {epoch: {"train": {"loss": 4.0 - epoch, "total_count": epoch}} for epoch in (1, 2)}
    return state


def position():
    reporter = SubReporter("train", 2, 7)
    return Position(2, 3, 7, True, statistics_of(reporter), [generator_states()])


def test_generators_come_back_from_a_file(tmp_path):
    np.random.randn()  # leaves a second value for the next call
    torch.save(generator_states(), tmp_path / "s.pth")
    expected = draws()
    assert draws() != expected
    restore_generators(torch.load(tmp_path / "s.pth"))
    assert draws() == expected


def test_statistics_come_back_and_go_on(tmp_path):
    def step(reporter, number):
        reporter.register({"loss": torch.tensor(0.1) * number, "acc": None}, torch.tensor(2.0 + number))
        reporter.register({"lr": 0.5})
        reporter.next()

    straight, first, second = (SubReporter("train", 1, 10) for _ in range(3))
    for number in range(4):
        step(straight, number)
    for number in range(2):
        step(first, number)
    torch.save(statistics_of(first), tmp_path / "s.pth")
    restore_statistics(second, torch.load(tmp_path / "s.pth"))
    for number in (2, 3):
        step(second, number)
    assert repr(dict(straight.stats)) == repr(dict(second.stats))
    assert (straight.count, straight.total_count) == (second.count, second.total_count) == (4, 14)


def test_a_position_is_saved_with_the_epochs_before_and_taken_once(tmp_path):
    state = state_of(tmp_path)
    state.save_position(position())
    again = state_of(tmp_path)
    loaded = again.load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    assert loaded["reporter"] == {"stats": {1: {"train": {"loss": 3.0, "total_count": 1}}}, "epoch": 1}
    assert loaded.keys() == {"model", "reporter", "optimizers", "schedulers", "scaler"}
    assert again.take_position(2).batches == 3 and again.take_position(2) is None
    again.load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    assert again.take_position(3) is None
    assert not list(tmp_path.glob("*epoch.pth"))


@pytest.mark.parametrize(
    ("epoch", "updated", "expected"), [(1, False, 0), (1, True, 1), (2, False, 1), (2, True, 1), (None, None, 1)]
)
def test_a_former_checkpoint_is_taken_for_one_after_an_update_unless_none_was_made(tmp_path, epoch, updated, expected):
    """It does not say whether that was counted; between epochs, where it has no position, there was one."""
    state = state_of(tmp_path)
    state.model = torch.nn.ModuleList([torch.nn.Linear(1, 1), UpdateCounter()])
    path = tmp_path / checkpoint.CHECKPOINT
    state.save_position(replace(position(), epoch=epoch or 1, updated=bool(updated)))
    former = checkpoint.load(path)
    assert former.pop("updates_behind") == [False]
    if epoch is None:
        del former["within_epoch"]
    checkpoint.save(former, path)
    state.model.load_state_dict(state.load(path, "cpu")["model"])
    state.take_position(epoch or 1)
    assert float(state.model[1](state.model[0].weight)) == expected


def test_training_on_a_cpu_leaves_the_gpus_of_the_machine_alone(monkeypatch):
    used = []
    for name in ("get_rng_state_all", "get_rng_state"):  # either of which begins to use the GPU
        monkeypatch.setattr(torch.cuda, name, used.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    states = generator_states()
    restore_generators(states)
    assert states["cuda"] == used == []


@pytest.mark.parametrize(("saved", "expected"), [([7], 7), ([5, 6], 6), ([3, 4, 5], 4)])
def test_the_generator_is_that_of_the_gpu_of_the_process(monkeypatch, saved, expected):
    """However many GPUs the machine shows; former checkpoints have the states of all of them."""
    states = {**generator_states(), "cuda": [torch.tensor([number]) for number in saved]}
    set_to = []
    for name, value in (("is_initialized", True), ("current_device", 1), ("get_rng_state", torch.tensor([7]))):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state: set_to.append(int(state)))
    restore_generators(states)
    assert set_to == [expected] and [int(state) for state in generator_states()["cuda"]] == [7]


def test_the_scale_of_the_loss_is_saved_within_an_epoch(tmp_path):
    state = state_of(tmp_path)
    state.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    state.save_position(position())
    assert state_of(tmp_path).load(tmp_path / checkpoint.CHECKPOINT, "cpu")["scaler"]["scale"] == 8


def test_what_is_not_finite_is_not_saved(tmp_path):
    state = state_of(tmp_path, weight=torch.nan)
    with pytest.raises(TrainingError, match="epoch 2: weight is no longer finite, and was not saved"):
        state.save_position(position())
    assert list(tmp_path.iterdir()) == []
    check_finite(torch.nn.Linear(1, 1), 1)


def test_another_learning_rate_scales_that_of_the_checkpoint(tmp_path, caplog):
    state_of(tmp_path).save_position(position())
    state = state_of(tmp_path, lr=0.3).load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    group = state["optimizers"][0]["param_groups"][0]
    assert group["lr"] == pytest.approx(0.3) and group["initial_lr"] == pytest.approx(0.3)
    assert state["schedulers"][0]["base_lrs"] == [0.3]
    assert "learning rates go on with base [[0.3]] in place of [[0.1]]" in caplog.text
    same = state_of(tmp_path).load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    assert same["optimizers"][0]["param_groups"][0]["lr"] == 0.1


def test_another_learning_rate_needs_no_scheduler(tmp_path):
    for lr in (0.1, 0.3):
        state = state_of(tmp_path, lr=lr)
        state.schedulers = [None]
        if lr == 0.1:
            state.save_position(position())
    loaded = state.load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    assert loaded["optimizers"][0]["param_groups"][0]["lr"] == pytest.approx(0.3) and loaded["schedulers"] == [None]


def test_weights_of_the_last_epoch_are_written_if_they_are_not_there(tmp_path):
    state = state_of(tmp_path)
    whole = {
        "model": state.model.state_dict(),
        "reporter": state.reporter.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in state.optimizers],
        "schedulers": [scheduler.state_dict() for scheduler in state.schedulers],
    }
    state.save(whole, tmp_path / checkpoint.CHECKPOINT)
    state.load(tmp_path / checkpoint.CHECKPOINT, "cpu")
    assert checkpoint.load(tmp_path / "2epoch.pth")["weight"] == 1


def test_names_tell_orders_and_borders_apart():
    digests = set()
    for batches in ([["a", "b"], ["c"]], [["a"], ["b", "c"]], [["b", "a"], ["c"]], [["a", "b", "c"]]):
        names = Names()
        for batch in batches:
            names.add(batch)
        digests.add(names.value)
    assert len(digests) == 4


def test_the_names_of_several_processes_are_those_of_one():
    batches = [["a", "b", "c", "d"], ["e", "f", "g"]]

    def value(rank, count):
        names = Names((rank, count))
        for batch in batches:
            names.add(batch[rank::count])
        return names.value

    assert value(0, 1) == value(0, 2) + value(1, 2) == sum(value(rank, 3) for rank in range(3)) > 2**32
