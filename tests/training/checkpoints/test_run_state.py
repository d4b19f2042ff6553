"""A checkpoint restores the state of its run."""

from types import SimpleNamespace

import pytest
import torch
from espnet2.train.reporter import Reporter, SubReporter

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.errors import ModelError, TrainingError
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.checkpoints.run_state import RunState, check_finite, restore_statistics, statistics_of


def state_of(folder, lr=0.1, weight=1.0, scheduled=True, criteria=()):
    """The state of a run of a model with one parameter, after two epochs."""
    model = torch.nn.Linear(1, 1)
    model.weight.data.fill_(weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) if scheduled else None]
    reporter = Reporter(epoch=2)
    reporter.stats = {epoch: {"train": {"loss": 4.0 - epoch, "total_count": epoch}} for epoch in (1, 2)}
    updates = SimpleNamespace(model=model, optimizers=[optimizer], schedulers=schedules, made=5)
    return RunState(folder, updates, reporter, criteria)


def fresh(folder, **options):
    """The state of the same run when it is begun."""
    state = state_of(folder, **options)
    state.reporter, state.updates.made = Reporter(), 0
    return state


def position():
    return Position(2, 3, 7, 1, statistics_of(SubReporter("train", 2, 7)))


def test_statistics_come_back_and_continue(tmp_path):
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


def test_a_run_that_began_with_a_constant_for_all_layers_continues_with_it(tmp_path):
    """Its configuration need not name the former default of differential attention."""
    before, after = state_of(tmp_path), fresh(tmp_path)
    for state, constant in ((before, 0.8), (after, None)):
        state.model = build_attention("differential", 8, 2, lambda_init=constant)
        state.optimizers[0].param_groups[0]["params"] = [*state.model.parameters()]
    before.save_position(position())
    after.restore("cpu")
    assert after.model.core.lambda_init.value == 0.8


def test_processes_that_start_again_continue_from_the_save_before_the_one_that_was_killed(tmp_path):
    """Without hard links there is none at the place of the newest for a moment."""
    state_of(tmp_path, weight=3.0).save_position(position())
    (tmp_path / checkpoint.CHECKPOINT).rename(tmp_path / checkpoint.PREVIOUS)
    again = fresh(tmp_path)
    assert again.restore("cpu") == position() and float(again.model.weight) == 3


def test_without_a_checkpoint_a_run_begins(tmp_path):
    assert fresh(tmp_path).restore("cpu") is None


@pytest.mark.parametrize("within", [True, False])
def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path, within):
    """It continued with other random numbers; a run within an epoch had their states."""
    state_of(tmp_path).save_position(position())
    former = checkpoint.load(tmp_path / checkpoint.CHECKPOINT)
    del former["updates"]
    former |= {"updates_behind": [], "measuring": {"batches": 1}}
    former["within_epoch"] = {"epoch": 2, "batches": 3, "names": 7, "generators": []} if within else None
    checkpoint.save(former, tmp_path / checkpoint.CHECKPOINT)
    with pytest.raises(ModelError, match=r"checkpoint\.pth: was saved by version 0\.2\.0 or earlier, or by ESPnet"):
        fresh(tmp_path).restore("cpu")


def test_non_finite_weights_are_not_saved(tmp_path):
    state = state_of(tmp_path, weight=torch.nan)
    with pytest.raises(TrainingError, match="epoch 2: weight is no longer finite, and was not saved"):
        state.save_position(position())
    assert list(tmp_path.iterdir()) == []
    check_finite(torch.nn.Linear(1, 1), 1)


def test_another_learning_rate_rescales_the_saved_one(tmp_path, caplog):
    state_of(tmp_path).save_position(position())
    state = fresh(tmp_path, lr=0.3)
    state.restore("cpu")
    group = state.optimizers[0].param_groups[0]
    assert group["lr"] == pytest.approx(0.3) and group["initial_lr"] == pytest.approx(0.3)
    assert state.schedulers[0].base_lrs == [0.3]
    assert "learning rates continue with base [[0.3]] instead of [[0.1]]" in caplog.text
    same = fresh(tmp_path)
    same.restore("cpu")
    assert same.optimizers[0].param_groups[0]["lr"] == 0.1


def test_another_learning_rate_needs_no_scheduler(tmp_path):
    state_of(tmp_path, scheduled=False).save_position(position())
    state = fresh(tmp_path, lr=0.3, scheduled=False)
    state.restore("cpu")
    assert state.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.3)


def test_weights_of_the_last_epoch_are_written_if_they_are_not_there(tmp_path):
    state_of(tmp_path).save_epoch(keep=1)
    (tmp_path / "2epoch.pth").unlink()
    assert fresh(tmp_path).restore("cpu") is None
    assert checkpoint.load(tmp_path / "2epoch.pth")["weight"] == 1


def test_an_epoch_leaves_the_weights_of_the_best_and_the_last_and_links_to_them(tmp_path):
    for epoch, loss in enumerate((3.0, 1.0, 4.0, 2.0, 5.0), start=1):
        state = state_of(tmp_path, weight=float(epoch), criteria=[("train", "loss", "min"), ("valid", "acc", "max")])
        losses = (3.0, 1.0, 4.0, 2.0, 5.0)[:epoch]
        state.reporter.set_epoch(epoch)
        state.reporter.stats = {number: {"train": {"loss": each}} for number, each in enumerate(losses, start=1)}
        state.save_epoch(keep=2)
        assert losses[-1] == loss and (tmp_path / "latest.pth").readlink().name == f"{epoch}epoch.pth"
    assert sorted(path.name for path in tmp_path.glob("*epoch.pth")) == ["2epoch.pth", "4epoch.pth", "5epoch.pth"]
    assert (tmp_path / "train.loss.best.pth").readlink().name == "2epoch.pth"
    assert not (tmp_path / "valid.acc.best.pth").exists()  # which no epoch has measured


@pytest.mark.parametrize(("key", "before"), [("updates_before", 40.0), ("added later", 0.0)])
def test_schedules_continue_from_the_saved_update_count(tmp_path, key, before):
    """The initial model may have changed since; a run that was saved without the count has counted from 0."""
    saved, resumed = state_of(tmp_path), fresh(tmp_path)
    for state, known in ((saved, 40.0), (resumed, 70.0)):
        state.model.updates = UpdateCounter()
        state.model.updates.before = known
    saved.save_position(position())
    state = checkpoint.load(tmp_path / checkpoint.CHECKPOINT)
    state[key] = state.pop("updates_before")
    checkpoint.save(state, tmp_path / checkpoint.CHECKPOINT)
    resumed.restore("cpu")
    assert resumed.model.updates.before == before
