import logging
import os
import shutil
import signal
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from espnet2.train.reporter import Reporter
from references.train_command import train
from references.wandb import Wandb
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from espnet_diverse.errors import TrainingError
from espnet_diverse.nets.models import DiverseASRModel
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints.run_state import RunState, check_finite
from espnet_diverse.training.data.data_workers import LoaderBatches
from espnet_diverse.training.loop import non_finite, stopping, trainer
from espnet_diverse.training.loop.updates import Updates


@pytest.fixture
def poisoned(tmp_path):
    """A function that copies a data directory and puts NaN into the named utterance's audio."""

    def poison(data_dir, utterance):
        copy = tmp_path / data_dir.name
        shutil.copytree(data_dir, copy)
        samples, rate = soundfile.read(copy / f"{utterance}.wav", dtype="float32")
        samples[100] = np.nan
        soundfile.write(copy / f"{utterance}.wav", samples, rate, subtype="FLOAT")
        table = copy / "wav.scp"
        table.write_text(table.read_text().replace(str(data_dir), str(copy)))
        return copy

    return poison


def test_a_resumed_run_equals_one_that_was_not_stopped(tiny_run, tmp_path, capfd):
    """SDMA draws noise and counts updates, so this holds for everything simpler too."""
    assert train(tiny_run, tmp_path / "resumed", "max_epoch=1") == 0
    capfd.readouterr()
    assert train(tiny_run, tmp_path / "resumed", "max_epoch=2", allow=["max_epoch"]) == 0
    shown = capfd.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["trained:", "epoch", "2/2"]
    assert "resumed: training continues with changed settings: max_epoch: 1 -> 2" in shown.err
    assert train(tiny_run, tmp_path / "straight", "max_epoch=2") == 0
    assert "settings" not in capfd.readouterr().err
    resumed, straight = (checkpoint.load(tmp_path / name / "2epoch.pth") for name in ("resumed", "straight"))
    assert [name for name in straight if not torch.equal(resumed[name], straight[name])] == []


@pytest.mark.parametrize(
    ("max_epoch", "patience", "said"),
    [
        (3, None, "no epoch is left: 3 are trained, and max_epoch is 3; for more, give a greater max_epoch "),
        (2, 9, "no epoch is left: 3 are trained, and max_epoch is 2; "),
        (4, None, ""),
        (4, 2, ""),
        (4, 1, "no epoch is left: training ended early after epoch 3, and patience is 1; for more, give a greater pat"),
    ],
)
def test_a_run_whose_epochs_are_all_trained_says_so(max_epoch, patience, said):
    reporter = Reporter(epoch=3)
    reporter.stats = {epoch: {"valid": {"loss": float(epoch)}} for epoch in (1, 2, 3)}
    options = SimpleNamespace(max_epoch=max_epoch, patience=patience, early_stopping_criterion=("valid", "loss", "min"))
    told = trainer.ended(options, reporter)
    assert told.startswith(said) and bool(told) == bool(said)
    assert options.max_epoch == max_epoch
    options.early_stopping_criterion = ("valid", "acc", "max")  # one that the run has had another of before
    options.max_epoch = 9
    assert trainer.ended(options, reporter) == ""


def test_a_signal_while_processes_exchange_theirs_is_kept():
    stop = stopping.StopRequest()
    ranks = SimpleNamespace(largest=lambda number: setattr(stop, "number", signal.SIGTERM) or number)
    loop = SimpleNamespace(stop=stop, ranks=ranks)
    assert [trainer.Loop._is_asked_to_stop(loop) for _ in range(2)] == [False, True]
    ranks.largest = lambda number: signal.SIGINT  # of another process
    assert trainer.Loop._is_asked_to_stop(loop) and stop.number == signal.SIGINT


def test_the_console_shows_progress_and_a_table_and_the_log_the_rest(tiny_run, tmp_path, capfd):
    handlers = logging.getLogger().handlers[:]
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1") == 0
    shown = capfd.readouterr()
    share, header, row, gradients = shown.out.splitlines()
    assert share.startswith("trained: all ")
    assert gradients.startswith("      gradient norms relative to the task's: kl_q ")
    assert header.split() == [
        *("epoch", "loss", "acc", "valid_loss", "valid_acc", "valid_cer_ctc"),
        *("kl_q", "diversity_q", "head_mi", "query_mi", "kl_z", "diversity_z", "lr", "elapsed", "left"),
    ]
    epoch, *figures, elapsed, left = row.replace(" s", "s").split()
    assert epoch == "1/1" and len(figures) == len(header.split()) - 3 and len(row) == len(header)
    assert all(np.isfinite(float(figure)) for figure in figures) and elapsed.endswith("s") and left == "0s"
    lines = shown.err.splitlines()
    digests = ["digest train/wav.scp", "digest valid/wav.scp"]
    phases = ["check audio", "check audio", *digests, "train epoch 1 of 1", "valid epoch 1 of 1"]
    assert [line.partition(":")[0] for line in lines] == phases
    log = (tmp_path / "exp" / "train.log").read_text()
    assert "1epoch results" in log and "--set=max_epoch=1" not in shown.out
    assert logging.getLogger().handlers == handlers
    assert any((tmp_path / "exp" / "tensorboard" / "train").iterdir())
    assert (tmp_path / "exp" / "learning_curves.png").stat().st_size > 5000


def test_parameters_that_are_not_finite_end_training_before_they_are_saved(tiny_run, tmp_path, capfd):
    assert (
        train(tiny_run, tmp_path / "exp", "optim=sgd", "optim_conf={lr: 3e38}", "grad_clip=1e9", "batch_size=12") == 1
    )
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("espnet-diverse train: error: epoch 1: ")
    assert "is no longer finite, and was not saved; training diverged: lower the learning rate" in error
    assert not list((tmp_path / "exp").glob("*.pth"))


@pytest.mark.parametrize("optimizer", [["optim=sgd", "optim_conf={lr: 3e38}", "grad_clip=1e9"], ["optim_conf.lr=1e30"]])
def test_a_learning_rate_that_is_too_high_is_called_that(optimizer, tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", *optimizer) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "error: epoch 1, step 2: training diverged: the learning rate " in error
    assert "is too high, lower optim_conf.lr; the loss is not finite" in error


@pytest.mark.parametrize("precision", ["use_amp=false", "use_amp=true"])
def test_batches_that_are_not_finite_are_listed(precision, tiny_run, tmp_path, capfd, poisoned, monkeypatch):
    monkeypatch.setattr(non_finite, "SHARE", 0.5)
    bad = poisoned(tiny_run.train_dir, "train-03")
    assert train(tiny_run, tmp_path / "exp", "batch_size=3", precision, train_dir=bad) == 0
    lines = (tmp_path / "exp" / non_finite.NAME).read_text().splitlines()
    assert len(lines) == 2 and all("train-03" in line and ", the loss: train-" in line for line in lines)
    assert [line.split()[:2] for line in lines] == [["epoch", "1"], ["epoch", "2"]]


def test_too_many_batches_that_are_not_finite_end_training_with_their_utterances(tiny_run, tmp_path, capfd, poisoned):
    bad = poisoned(tiny_run.train_dir, "train-03")
    assert train(tiny_run, tmp_path / "exp", "batch_size=12", train_dir=bad) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "epoch 1, step 1: the loss is not finite, first of utterances train-" in error
    assert "and 7 more; check their audio and transcripts, or lower the learning rate; " in error
    assert f"{tmp_path / 'exp' / 'nonfinite_batches.txt'} lists all such batches" in error


def test_a_validation_loss_that_is_not_finite_ends_training(tiny_run, tmp_path, capfd, poisoned):
    bad = poisoned(tiny_run.valid_dir, "valid-01")
    assert train(tiny_run, tmp_path / "exp", valid_dir=bad) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "epoch 1: the validation loss is not finite, first of utterances" in error and "valid-01" in error


def test_the_save_after_an_epoch_is_finished_however_long_it_takes(tiny_run, tmp_path, monkeypatch):
    save_epoch = RunState.save_epoch

    def slow(self, kept):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.5)
        save_epoch(self, kept)

    monkeypatch.setattr(stopping, "SECONDS", 1)
    monkeypatch.setattr(RunState, "save_epoch", slow)
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1") == 75
    assert checkpoint.load(tmp_path / "exp" / "valid.acc.ave.pth")


def test_fewer_batches_than_accum_grad_are_an_error(tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", "accum_grad=3") == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "no update was made; it has 2 batches, fewer than accum_grad 3; lower accum_grad or the batch size" in error


def test_gradients_that_are_not_finite_are_told_from_losses(tiny_run, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_, **__: torch.tensor(torch.nan))
    assert train(tiny_run, tmp_path / "exp") == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "epoch 1, step 1: the gradient is not finite, first of utterances train-" in error


def test_a_killed_worker_is_one_line_and_changes_nothing(tiny_run, tmp_path, capfd, monkeypatch):
    assert train(tiny_run, tmp_path / "sound", "batch_size=2", "max_epoch=1") == 0
    capfd.readouterr()
    read = LoaderBatches.__next__

    def killing(self):
        if self.name.startswith("train") and self.number == 2 and not self.again and self.iterator._workers:
            os.kill(self.iterator._workers[0].pid, signal.SIGKILL)
            self.iterator._workers[0].join()
        return read(self)

    monkeypatch.setattr(LoaderBatches, "__next__", killing)
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))
    settings = ["batch_size=2", "max_epoch=1", "num_workers=1"]
    assert train(tiny_run, tmp_path / "killed", *settings) == 0
    lines = [line for line in capfd.readouterr().err.splitlines() if "worker" in line]
    assert lines == ["WARNING: train epoch 1 of 1: a worker that reads data was killed; it is started again"]
    one, other = (checkpoint.load(tmp_path / name / "1epoch.pth") for name in ("sound", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_batch_too_large_for_the_gpu_is_tried_in_two_halves(tiny_run, tmp_path, capfd, monkeypatch):
    forward, calls = DiverseASRModel.forward, []

    def full(self, **batch):
        calls.append(len(batch["speech"]))
        if len(batch["speech"]) > full.most:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")
        return forward(self, **batch)

    monkeypatch.setattr(DiverseASRModel, "forward", full)
    full.most = 6
    assert train(tiny_run, tmp_path / "exp", "batch_size=12", "max_epoch=1") == 0
    said = capfd.readouterr().err
    assert (
        calls == [12, 6, 6, 6, 6, 4] and "the GPU is out of memory (CUDA out of memory.) with utterances train-" in said
    )
    assert "of lengths speech 12000 12000 12000 12000 12000, text 3 3 3 3 3; they are tried in two halves" in said
    full.most = 5
    assert train(tiny_run, tmp_path / "other", "batch_size=12", "max_epoch=1") == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "text 3 3 3 3 3 although the batch was halved; lower batch_bins or batch_size, or leave out" in error


def test_code_in_a_checkpoint_is_not_run_on_resume(tiny_run, tmp_path, capfd):
    class Payload:
        def __reduce__(self):
            return shutil.rmtree, (str(tmp_path / "victim"),)

    (tmp_path / "victim").mkdir()
    (tmp_path / "exp").mkdir()
    torch.save({"model": Payload()}, tmp_path / "exp" / "checkpoint.pth")
    assert train(tiny_run, tmp_path / "exp") == 1
    assert "checkpoint.pth: is not a checkpoint or holds objects" in capfd.readouterr().err
    assert (tmp_path / "victim").exists()


def test_buffers_must_be_finite_too():
    model = torch.nn.BatchNorm1d(2)
    check_finite(model, 1)
    model.running_var[0] = torch.inf
    with pytest.raises(TrainingError, match="epoch 4: running_var is no longer finite"):
        check_finite(model, 4)


@pytest.mark.parametrize(
    ("scheduler", "options", "rate"),
    [
        ("exponentiallr", "{gamma: 0.5}", 2.5e-4),
        ("reducelronplateau", "{mode: max, patience: 0, factor: 0.1}", 1e-4),  # the loss falls, so it is no maximum
    ],
)
def test_schedulers_of_epochs_change_the_rate_after_each(tiny_run, tmp_path, scheduler, options, rate):
    settings = [f"scheduler={scheduler}", f"scheduler_conf={options}", "val_scheduler_criterion=[valid, loss]"]
    assert train(tiny_run, tmp_path / "exp", *settings) == 0
    ((group,),) = (each["param_groups"] for each in checkpoint.load_run(tmp_path / "exp")[0]["optimizers"])
    assert group["lr"] == pytest.approx(rate)


def test_pictures_and_averages_are_made_after_an_epoch_if_asked_for(tiny_run, tmp_path, monkeypatch):
    """ESPnet draws the pictures, which takes 10 seconds."""
    drawn, exp = [], tmp_path / "exp"

    def plot(model, output_dir, writer, iterator, reporter, options):
        drawn.append((output_dir, [names for names, _ in iterator], reporter.get_epoch()))

    monkeypatch.setattr(trainer.Trainer, "plot_attention", plot)
    monkeypatch.setattr(Reporter, "matplotlib_plot", lambda self, folder: drawn.append(folder))
    pictures = ["use_matplotlib=true", "num_att_plot=2"]
    assert train(tiny_run, exp, "nbest_averaging_interval=2", *pictures) == 0
    named = [["valid-00"], ["valid-01"]]
    assert drawn == [each for epoch in (1, 2) for each in ((exp / "att_ws", named, epoch), exp / "images")]
    averages = {path.name for path in exp.glob("valid.acc.ave.*pth")}
    assert averages == {"valid.acc.ave.pth", "valid.acc.ave.till2epoch.pth"}


def test_statistics_are_sent_every_log_interval_and_after_the_epoch(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", wandb := Wandb(logged_in=True))
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1", "use_wandb=true", "log_interval=1") == 0
    assert [set(each) & {"iteration", "epoch"} for each in wandb.sent] == [{"iteration"}, {"iteration"}, {"epoch"}]
    assert all(np.isfinite(each["metrics/loss"]) for each in wandb.sent[:2])
    assert np.isfinite(wandb.sent[2]["valid/valid_loss_epoch"]) and wandb.is_finished


def test_an_epoch_without_a_finite_batch_made_no_update(tiny_run, tmp_path, capfd, poisoned, monkeypatch):
    monkeypatch.setattr(non_finite, "SHARE", 1.0)
    bad = poisoned(tiny_run.train_dir, "train-03")
    assert train(tiny_run, tmp_path / "exp", "batch_size=12", train_dir=bad) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "error: epoch 1: no update was made; the loss is not finite, first of utterances train-" in error


def test_a_stop_while_validating_saves_the_end_of_the_epoch(tiny_run, tmp_path, capfd, monkeypatch):
    forward = Updates.forward

    def stopping_in_validation(self, batch, *rest):
        if not self.model.training:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(self, batch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Updates, "forward", stopping_in_validation)
        assert train(tiny_run, tmp_path / "exp", "max_epoch=1") == 75
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith("espnet-diverse train: SIGTERM: saved in epoch 1 after 2 batches; the same command")
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1") == 0
    stopped, straight = (checkpoint.load(folder / "1epoch.pth") for folder in (tmp_path / "exp", tiny_run.model_dir))
    assert all(torch.equal(stopped[name], straight[name]) for name in straight)
