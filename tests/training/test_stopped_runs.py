"""A run that was stopped or killed anywhere continues bit for bit; resumption between epochs is in test_trainer.py."""

import logging
import os
import shutil
import signal
import time

import pytest
import torch
from references.train_command import call_after, train, train_until_killed
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints.run_state import RunState
from espnet_diverse.training.loop import stopping, trainer


@pytest.fixture
def signalled(monkeypatch):
    """A function that makes the process get a signal after a step of training."""

    def at(step, number=signal.SIGTERM):
        call_after(step, lambda: os.kill(os.getpid(), number), monkeypatch)

    return at


MANY = ["batch_size=2", "accum_grad=2", "save_interval_steps=2", "keep_nbest_models=1"]
MANY += ["model_conf.balance_interval=2"]  # so that each epoch, of 3 updates, has a measurement


@pytest.fixture(scope="module")
def straight(tiny_run, tmp_path_factory):
    """A run of two epochs of 6 batches, 2 an update, that is not stopped."""
    folder = tmp_path_factory.mktemp("straight") / "exp"
    assert train(tiny_run, folder, *MANY) == 0
    return folder


def measured(stats):
    """The statistics of an epoch that do not depend on the machine."""
    return {name: repr(value) for name, value in stats.items() if "time" not in name and "mem" not in name}


def same_weights(one, other):
    """Whether two runs have the same files of weights, with the same content, and the same statistics but for times."""
    names = sorted(path.name for path in one.glob("*.pth") if path.name != checkpoint.PREVIOUS)
    assert names == sorted(path.name for path in other.glob("*.pth") if path.name != checkpoint.PREVIOUS)
    pairs = [[checkpoint.load(folder / name) for folder in (one, other)] for name in names]
    stats = [[state["reporter"]["stats"] for state in pair] for pair in pairs if "reporter" in pair[0]]
    for a, b in stats:
        for epoch, phases in a.items():
            assert {"collapsed_z", "gradient_kl_z"} <= phases["train"].keys()  # which some batches alone measure
            assert all(measured(phases[phase]) == measured(b[epoch][phase]) for phase in ("train", "valid"))
    models = [[state.get("model", state) for state in pair] for pair in pairs]
    return all(torch.equal(a[name], b[name]) for a, b in models for name in a)


@pytest.mark.parametrize("step", [*(pytest.param(step, marks=pytest.mark.recipes) for step in (1, 9)), 4, 6, 12])
def test_a_signal_saves_within_the_epoch_and_the_run_continues_bit_for_bit(
    step, straight, tiny_run, tmp_path, capfd, signalled, monkeypatch
):
    """After step 6 and 12 the rest is the validation, which ends at its first batch."""
    signalled(step, signal.SIGINT if step == 4 else signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    assert train(tiny_run, tmp_path / "exp", *MANY) == 75
    assert signal.getsignal(signal.SIGTERM) is before and signal.alarm(0) == 0
    monkeypatch.undo()
    error = capfd.readouterr().err.splitlines()[-1]
    epoch, done = divmod(step - 1, 6)
    name = "SIGINT" if step == 4 else "SIGTERM"
    where = f"saved in epoch {epoch + 1} after {2 * (done // 2) + 2} batches; the same command continues from there"
    assert error == f"espnet-diverse train: {name}: {where}"
    assert train(tiny_run, tmp_path / "exp", *MANY) == 0
    assert same_weights(straight, tmp_path / "exp")


def test_a_signal_during_averaging_finishes_it_and_exits_with_75(straight, tiny_run, tmp_path, capfd, monkeypatch):
    average = trainer.average_best

    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGINT)
        average(*args)

    monkeypatch.setattr(trainer, "average_best", interrupted)
    assert train(tiny_run, tmp_path / "exp", *MANY) == 75
    assert "SIGINT: saved all epochs and their averages; the same" in capfd.readouterr().err.splitlines()[-1]
    monkeypatch.undo()
    assert train(tiny_run, tmp_path / "exp", *MANY) == 0
    assert same_weights(straight, tmp_path / "exp")


def test_a_save_that_takes_longer_than_the_time_to_stop_is_finished(tiny_run, tmp_path, capfd, signalled, monkeypatch):
    save = RunState.save_position

    def slow(self, position):
        time.sleep(1.5)
        save(self, position)

    monkeypatch.setattr(stopping, "SECONDS", 1)
    monkeypatch.setattr(RunState, "save_position", slow)
    signalled(2)
    assert train(tiny_run, tmp_path / "exp", *MANY[:2]) == 75
    said = "SIGTERM: saved in epoch 1 after 2 batches; the same command continues from there"
    assert capfd.readouterr().err.splitlines()[-1] == f"espnet-diverse train: {said}"


def test_a_run_continues_from_its_last_save_within_the_epoch(straight, tiny_run, tmp_path, caplog):
    """The kill comes after the save of step 4."""
    train_until_killed(5, tiny_run, tmp_path / "exp", *MANY)
    assert checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["within_epoch"]["batches"] == 4
    assert checkpoint.load(tmp_path / "exp" / checkpoint.PREVIOUS)["within_epoch"]["batches"] == 2
    copy = shutil.copytree(tmp_path / "exp", tmp_path / "torn")
    (copy / checkpoint.CHECKPOINT).write_bytes(b"PK torn")
    (copy / ".2epoch.partial.0.pth").write_bytes(b"of a process that was killed")
    for folder in (tmp_path / "exp", copy):
        assert train(tiny_run, folder, *MANY) == 0
        assert same_weights(straight, folder)
    assert not list(copy.glob(".*.partial*"))
    assert "taken instead: checkpoint.previous.pth" in caplog.text


def test_saves_within_an_epoch_come_where_the_update_ends_that_the_interval_falls_into(tiny_run, tmp_path, monkeypatch):
    places = []
    monkeypatch.setattr(RunState, "save_position", lambda self, position: places.append(position.batches))
    changes = ["batch_size=1", "accum_grad=3", "max_epoch=1"]  # 12 batches, with updates after 3 6 9 12
    for interval, expected in ((2, [3, 6, 9]), (4, [6, 9]), (5, [6]), (7, [9]), (11, [])):
        assert train(tiny_run, tmp_path / str(interval), *changes, f"save_interval_steps={interval}") == 0
        assert places == expected, interval
        places.clear()


def steps_shown(folder):
    """The numbers of batches of the points that TensorBoard shows of a statistic that batches alone have."""
    events = EventAccumulator(str(folder / "tensorboard" / "train"))
    return [event.step for event in events.Reload().Scalars("iter_time") if event.step % 6]  # an epoch has one too


def test_tensorboard_shows_each_batch_once_after_a_kill_and_after_a_restart(tiny_run, tmp_path):
    logging_all = ["batch_size=2", "save_interval_steps=2", "use_tensorboard=true", "log_interval=1"]
    for kill in (1, 5, 5):  # before anything is saved, after the save of batch 4, and after that of batch 8
        train_until_killed(kill, tiny_run, tmp_path / "exp", *logging_all)
        time.sleep(1)  # TensorBoard reads files in the order of their names, which begin with the second
    assert train(tiny_run, tmp_path / "exp", *logging_all) == 0
    assert steps_shown(tmp_path / "exp") == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    for path in (tmp_path / "exp").glob("*.pth"):
        path.unlink()
    time.sleep(1)
    assert train(tiny_run, tmp_path / "exp", *logging_all, "max_epoch=1") == 0
    assert steps_shown(tmp_path / "exp") == [1, 2, 3, 4, 5]


def test_an_epoch_of_other_batches_is_trained_again(tiny_run, tmp_path, signalled, caplog):
    signalled(2)
    assert train(tiny_run, tmp_path / "exp", *MANY) == 75
    with caplog.at_level(logging.WARNING):
        changed = ["batch_size=3", *MANY[1:]]
        assert train(tiny_run, tmp_path / "exp", *changed, allow=["batch_size"]) == 0
    assert "train epoch 1 of 2: its batches have changed; all of the epoch is trained again" in caplog.text
    stats = checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["reporter"]["stats"]
    assert [stats[epoch]["train"]["total_count"] for epoch in (1, 2)] == [4, 8]  # none of the part that was abandoned


def test_another_learning_rate_holds_from_where_the_run_continues(tiny_run, tmp_path, caplog):
    settings = ["scheduler=warmuplr", "scheduler_conf={warmup_steps: 2}"]
    assert train(tiny_run, tmp_path / "exp", *settings, "max_epoch=1") == 0
    allow = ["max_epoch", "optim_conf.lr"]
    assert train(tiny_run, tmp_path / "exp", *settings, "optim_conf.lr=5e-3", allow=allow) == 0
    stats = checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["reporter"]["stats"]
    first, second = (stats[epoch]["train"]["optim0_lr0"] for epoch in (1, 2))
    decay = (2 / 4) ** 0.5 / 2 + (2 / 5) ** 0.5 / 2  # of warmuplr after its third and fourth step
    assert second == pytest.approx(5e-3 * decay) and first < 1.1e-3
    assert "learning rates continue with base [[0.005]] instead of [[0.001]]" in caplog.text


def links(folder):
    """The target of each link of a run."""
    return {path.name: path.readlink() for path in folder.iterdir() if path.is_symlink()}


@pytest.mark.parametrize("links_written", [False, True])
def test_a_kill_at_the_end_of_the_last_epoch_loses_nothing(links_written, tiny_run, straight, tmp_path):
    """Before its weights are written, or where the links are replaced: one is gone, the others are those of before."""
    copy = shutil.copytree(straight, tmp_path / "exp", symlinks=True)
    for name in ("2epoch.pth", "valid.acc.ave.pth", "valid.loss.ave.pth")[links_written:]:
        (copy / name).unlink()
    for name in links(copy):
        (copy / name).unlink()
        if name != "latest.pth":
            (copy / name).symlink_to("1epoch.pth")
    assert train(tiny_run, copy, *MANY) == 0
    assert same_weights(straight, copy) and links(copy) == links(straight)


def test_a_run_that_ended_early_is_at_its_end_until_its_patience_grows(tiny_run, tmp_path, capfd):
    """By a criterion that never improves it ends after epoch 2; one epoch more was trained at each further call."""
    ending = ["max_epoch=5", "early_stopping_criterion=[valid, epoch, min]"]
    for said in ("2/5", "no epoch is left: training ended early after epoch 2"):
        assert train(tiny_run, tmp_path / "exp", *ending, "patience=0") == 0
        lines = capfd.readouterr().out.splitlines()
        assert any(line.strip().startswith(said) for line in lines), lines
        assert checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["reporter"]["epoch"] == 2
    assert lines[-1].endswith("for more, give a greater patience and --allow_changed patience")
    assert train(tiny_run, tmp_path / "exp", *ending, "patience=1", allow=["patience"]) == 0
    assert checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["reporter"]["epoch"] == 3


def test_batches_after_the_last_update_of_an_epoch_count_no_update_in_the_run_that_continues(tiny_run, tmp_path):
    """Of 6 batches, 4 an update, the last two see the update and make none; the next epoch begins with no other."""
    left = ["batch_size=2", "accum_grad=4", "keep_nbest_models=1", "model_conf.balance_interval=2"]
    assert train(tiny_run, tmp_path / "straight", *left, "max_epoch=3") == 0
    for epochs in (1, 2, 3):
        assert train(tiny_run, tmp_path / "exp", *left, f"max_epoch={epochs}", allow=["max_epoch"]) == 0
    state = checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)
    expected = checkpoint.load(tmp_path / "straight" / checkpoint.CHECKPOINT)
    counts = [name for name in expected["model"] if name.endswith("updates.count")]
    assert counts and all(expected["model"][name] == 3 for name in counts)
    assert all(torch.equal(state["model"][name], expected["model"][name]) for name in expected["model"])
    ratios = [
        {epoch: "gradient_kl_z" in phases["train"] for epoch, phases in each["reporter"]["stats"].items()}
        for each in (state, expected)
    ]
    assert ratios == [{1: True, 2: True, 3: True}] * 2  # before the first update, and after the second one, twice
