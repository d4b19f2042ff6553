"""Updates: of gradients that are added up over a group of batches, and none where these are not finite."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from espnet2.schedulers.warmup_lr import WarmupLR

from espnet_diverse.errors import TrainingError
from espnet_diverse.runs.tasks import ASRTask
from espnet_diverse.scope import current
from espnet_diverse.training.loop.epoch_batches import Batch
from espnet_diverse.training.loop.ranks import Ranks
from espnet_diverse.training.loop.trainer import Trainer
from espnet_diverse.training.loop.updates import Updates


class Model(torch.nn.Module):
    """A model whose loss is weight * x, and that notes the step of each batch."""

    def __init__(self):
        super().__init__()
        self.weight, self.steps = torch.nn.Parameter(torch.tensor(2.0)), []

    def forward(self, x, utt_id):
        self.steps.append(current().step)
        loss = (self.weight * x).sum()[None]
        return loss, {"loss": loss.detach(), "acc": None}, torch.tensor([len(utt_id)])


def updates_of(model, schedule=None, **changes):
    args = ASRTask.get_parser().parse_args([])
    args.output_dir, args.repulsion = "", None
    options = replace(Trainer.build_options(args), grad_clip=100.0, **changes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return Updates(model, [optimizer], [schedule and schedule(optimizer)], options, Ranks())


def group(*values, first=0):
    return [Batch(["u"], {"x": torch.tensor([value])}, number, 0.0) for number, value in enumerate(values, start=first)]


def test_an_update_matches_the_mean_of_its_batches():
    model = Model()
    updates = updates_of(model, accum_grad=2)
    results = updates.accumulate(group(1.0, 3.0, first=4), epoch=1)
    assert [float(result.stats["loss"]) for result in results] == [2.0, 6.0]  # not divided by their number
    assert [result.names for result in results] == [["loss", "acc"]] * 2 and "acc" not in results[0].stats
    assert updates.make(6).norm == 2.0 and updates.made == 1
    assert float(model.weight) == 1.0 and model.weight.grad is None
    updates.accumulate(group(0.0, 0.0, first=6), epoch=1)
    assert [(step.updates, step.batch, step.is_first) for step in model.steps] == [
        *((0, 4, True), (0, 5, False), (1, 6, True), (1, 7, False))
    ]


def test_a_single_utterance_is_computed_without_the_compiler():
    class Layered(Model):
        def forward(self, x, utt_id):
            return super().forward(self.layer(x.unsqueeze(1)), utt_id)

    model, compiled = Layered(), []
    model.layer = torch.nn.Linear(1, 1)
    model.layer.compile(backend=lambda graph, _: compiled.append(graph) or graph.forward, dynamic=True)
    updates = updates_of(model, compile="eager")
    for utterances in (["u"], ["u", "v"], ["u"], ["u", "v", "w"]):
        batch = Batch(utterances, {"x": torch.arange(float(len(utterances)))}, 0, 0.0)
        updates.accumulate([batch], epoch=1)
    assert len(compiled) == 1


def test_all_processes_send_their_buffers_in_a_second_try(monkeypatch):
    """DistributedDataParallel changes its switch at the end of a forward pass, which some processes do not reach."""
    updates, found = updates_of(Model()), []

    def parallel(*given):
        found.append(updates._parallel.require_forward_param_sync)
        updates._parallel.require_forward_param_sync = False  # as after validation
        if len(found) == 1:
            raise torch.OutOfMemoryError("full")
        return Model.forward(updates.model, given[0]["x"], given[0]["utt_id"])

    monkeypatch.setattr(updates._parallel, "forward", parallel)
    updates.accumulate([Batch(["u", "v"], {"x": torch.tensor([1.0, 2.0])}, 0, 0.0)], epoch=2)
    assert found == [True, True]


@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_gradients_that_are_not_finite_make_no_update(fault, caplog):
    model = Model()
    updates = updates_of(model, WarmupLR)
    updates.accumulate(group(fault), epoch=1)
    update = updates.make(1)
    assert update.seconds is None and updates.made == 0 and float(model.weight) == 2.0
    assert model.weight.grad is None and updates.schedulers[0].last_epoch == 0
    assert f"the norm of the gradients is {update.norm}; no update is made" in caplog.text


def test_a_loss_that_is_not_finite_makes_no_update_whatever_its_gradients_are(caplog):
    model = Model()
    updates = updates_of(model, accum_grad=2)
    updates.accumulate(group(1.0, 3.0), epoch=1)
    update = updates.make(2, [torch.inf, 1.0])
    assert update.norm == 2.0 and update.seconds is None and float(model.weight) == 2.0 and model.weight.grad is None
    assert "a loss is inf; no update is made" in caplog.text


def test_gradients_that_were_left_are_not_part_of_the_next_update():
    model = Model()
    updates = updates_of(model)
    updates.accumulate(group(7.0), epoch=1)
    updates.accumulate(group(1.0), epoch=1)
    assert updates.make(1).norm == 1.0


def test_a_memory_that_is_too_small_for_the_optimizer_is_one_line(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")

    updates = updates_of(Model())
    updates.accumulate(group(1.0), epoch=1)
    monkeypatch.setattr(updates.optimizers[0], "step", full)
    with pytest.raises(TrainingError, match=r"\(CUDA out of memory\.\) while parameters were updated; take a smaller"):
        updates.make(1)


def test_each_process_adds_its_share_of_the_mean_of_all():
    """Two processes with batches of weight 1 and 3; the gradients of both are averaged afterwards."""
    model = Model()
    updates = updates_of(model)
    updates.ranks = SimpleNamespace(alone=False, count=2, own=0)
    updates.average = lambda stats, weight: (stats, weight + 3)
    updates.accumulate(group(1.0), epoch=1)
    alone = Model()
    updates_of(alone).accumulate(group(1.0), epoch=1)
    torch.testing.assert_close(model.weight.grad, alone.weight.grad * 1 / (1 + 3) * 2)
