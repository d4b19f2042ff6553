"""Batches that are not finite are counted, listed and told from a learning rate that is too high."""

from types import SimpleNamespace

import pytest
import torch
from espnet2.train.reporter import SubReporter

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.loop import non_finite
from espnet_diverse.training.loop.epoch_batches import Batch
from espnet_diverse.training.loop.non_finite import NonFiniteBatches


class Run:
    """An epoch whose batches have given losses and gradient norms."""

    def __init__(self, folder, total=100):
        self.model, self.reporter = torch.nn.Linear(1, 1), SubReporter("train", 3, 0)
        self.bad = NonFiniteBatches(self.model, self.reporter, folder)
        self.total, self.done = total, 0

    def step(self, loss=1.0, norm=1.0):
        self.reporter.register({"optim0_lr0": 0.5})
        self.reporter.next()
        losses = loss if isinstance(loss, tuple) else (loss,)
        group = [Batch([f"u{self.done + n}"], {}, self.done + n - 1, 0.0) for n in range(1, len(losses) + 1)]
        self.done += len(group)
        self.bad.check(group, losses, norm, self.total)


def test_bad_batches_are_listed(tmp_path):
    run = Run(tmp_path)
    for loss, norm in ((1.0, 1.0), (torch.nan, torch.nan), (1.0, 1.0), (1.0, torch.nan), (torch.inf, torch.nan)):
        run.step(loss, norm)
    lines = (tmp_path / non_finite.NAME).read_text().splitlines()
    assert lines == ["epoch 3 step 2, the loss: u2", "epoch 3 step 4, the gradient: u4", "epoch 3 step 5, the loss: u5"]


@pytest.mark.parametrize("own", [0, 1])
def test_the_first_of_several_processes_lists_the_whole_batch(tmp_path, own):
    run = Run(tmp_path)
    shares = [["u1", "v2"], ["w1"]]
    run.bad.ranks = SimpleNamespace(own=own, gathered=lambda share: shares)
    run.step(torch.nan, torch.nan)
    assert run.bad.first == "the loss is not finite, first of utterances u1 w1 v2"
    listed = tmp_path / non_finite.NAME
    assert listed.exists() == (own == 0) and (own or listed.read_text() == "epoch 3 step 1, the loss: u1 w1 v2\n")


def test_many_in_a_row_end_training(tmp_path):
    run = Run(tmp_path, total=None)
    for _ in range(2):
        for _ in range(non_finite.IN_A_ROW - 1):
            run.step(torch.nan, torch.nan)
        run.step()
    for _ in range(non_finite.IN_A_ROW - 1):
        run.step(torch.nan, torch.nan)
    with pytest.raises(TrainingError, match="epoch 3, step 30: the loss is not finite, first of utterances u1; check"):
        run.step(torch.nan, torch.nan)


def test_a_share_of_the_epoch_ends_training(tmp_path):
    run = Run(tmp_path, total=20)
    for _ in range(2):
        run.step(torch.nan, torch.nan)
        run.step()
    with pytest.raises(TrainingError, match=r"step 5: the loss .*; .*nonfinite_batches\.txt lists all such batches$"):
        run.step(torch.nan, torch.nan)


def test_parameters_that_have_grown_are_a_learning_rate(tmp_path):
    run = Run(tmp_path, total=2)
    run.step()
    run.model.weight.data.fill_(1e6)
    said = "step 2: training diverged: the learning rate 0.5 is too high, lower optim_conf.lr; the loss is not finite"
    with pytest.raises(TrainingError, match=said):
        run.step(torch.nan, torch.nan)


def test_a_model_that_never_had_a_finite_batch_has_not_diverged(tmp_path):
    run = Run(tmp_path, total=2)
    run.model.weight.data.fill_(torch.nan)
    with pytest.raises(TrainingError, match="^epoch 3, step 1: the loss is not finite, first of utterances u1; check"):
        run.step(torch.nan, torch.nan)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_parameters_that_are_not_numbers_have_diverged(name):
    run = Run(None)
    run.step()
    getattr(run.model, name).data.fill_(torch.nan)
    run.step(torch.nan, torch.nan)
    assert run.bad.explain().startswith("training diverged: the learning rate 0.5 is too high")


def test_gradients_count_where_an_update_is_due():
    run = Run(None)
    run.step(norm=None)
    assert run.bad.total == 0
    run.step(norm=torch.nan)
    assert run.bad.total == 1 and run.bad.first == "the gradient is not finite, first of utterances u2"


def test_the_batches_of_an_update_are_told_by_their_losses_and_counted_once(tmp_path):
    run = Run(tmp_path)
    run.step(loss=(torch.nan, 1.0), norm=torch.nan)
    run.step(loss=(1.0, 2.0), norm=torch.nan)
    run.step(loss=(torch.inf, torch.inf), norm=1.0)
    assert (tmp_path / non_finite.NAME).read_text().splitlines() == [
        "epoch 3 step 1, the loss: u1",
        "epoch 3 step 4, the gradient: u3 u4",
        "epoch 3 step 5, the loss: u5",
        "epoch 3 step 6, the loss: u6",
    ]
    assert run.bad.total == 4
