"""Runs of two processes that were stopped or killed within an epoch continue; the processes are forks of this one."""

import os
import shutil
import signal
import time

import pytest
import soundfile
import torch
from references.train_command import NOISELESS, train

from espnet_diverse.runs import checkpoint
from espnet_diverse.training.loop import non_finite
from espnet_diverse.training.loop.non_finite import NonFiniteBatches

pytestmark = [pytest.mark.usefixtures("forks"), pytest.mark.recipes]
TWO = ["batch_size=2", "accum_grad=2", "save_interval_steps=2", "keep_nbest_models=1"]  # epochs of 6 batches
EXACT = [*TWO, *NOISELESS]


@pytest.fixture(scope="module")
def run(tiny_run, tmp_path_factory):
    """The tiny run with utterances of different lengths, so that processes draw different amounts of noise."""
    folder = shutil.copytree(tiny_run.train_dir, tmp_path_factory.mktemp("lengths") / "train")
    table = folder / "wav.scp"
    table.write_text(table.read_text().replace(str(tiny_run.train_dir), str(folder)))
    for number, path in enumerate(sorted(folder.glob("*.wav"))):
        samples, rate = soundfile.read(path)
        soundfile.write(path, samples[: 12000 - 500 * number], rate)
    return tiny_run._replace(train_dir=folder)


@pytest.fixture(scope="module")
def straight(run, tmp_path_factory):
    """A run of two epochs that is not stopped."""
    folder = tmp_path_factory.mktemp("straight") / "exp"
    assert train(run, folder, *TWO, nproc=2) == 0
    return folder


def stop_parent():
    """Ask the parent to stop, and wait until it has handed on the signal."""
    handler, handed = signal.getsignal(signal.SIGTERM), []
    signal.signal(signal.SIGTERM, lambda *given: handed.append(handler(*given)))
    os.kill(os.getppid(), signal.SIGTERM)
    ends = time.monotonic() + 60
    while not handed and time.monotonic() < ends:
        time.sleep(0.02)


def weights(folder):
    return {path.name: checkpoint.load(path) for path in sorted(folder.glob("*epoch.pth"))}


def check_same(folder, other, **tolerance):
    """Check that two runs have the same weights, bit for bit unless there is a tolerance."""
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys() and ours
    for name, state in theirs.items():
        for key, value in state.items():
            torch.testing.assert_close(ours[name][key], value, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize(("step", "where"), [(3, "1 after 4"), (6, "1 after 6")])
def test_two_processes_that_are_stopped_continue_bit_for_bit(
    step, where, straight, run, tmp_path, after, monkeypatch, capfd
):
    """After step 6 the rest of the epoch is the validation, which ends at its first batch."""
    after(step, stop_parent)
    before = signal.getsignal(signal.SIGTERM)
    assert train(run, tmp_path / "exp", *TWO, nproc=2) == 75
    said = capfd.readouterr().err.splitlines()[-1]
    end = f"saved in epoch {where} batches; the same command continues from there"
    assert said == f"espnet-diverse train: SIGTERM: {end}" and signal.getsignal(signal.SIGTERM) is before
    monkeypatch.undo()
    assert train(run, tmp_path / "exp", *TWO, nproc=2) == 0
    check_same(tmp_path / "exp", straight)


def test_a_signal_to_one_process_ends_all_of_them(run, tmp_path, after, capfd):
    after(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert train(run, tmp_path / "exp", *TWO, nproc=2) == 75
    assert "train: SIGINT: saved in epoch 1 after 4 batches; the" in capfd.readouterr().err.splitlines()[-1]
    assert checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["within_epoch"]["processes"] == 2


def test_a_kill_loses_the_work_since_the_last_save_within_the_epoch(straight, run, tmp_path, after):
    after(5, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert train(run, tmp_path / "exp", *TWO, nproc=2) == 0
    log = (tmp_path / "exp" / "train.log").read_text()
    assert "(restart 1)" in log and "training is resumed from" in log
    check_same(tmp_path / "exp", straight)


@pytest.fixture(scope="module")
def exact(tiny_run, tmp_path_factory):
    """A run of one process without noise that is not stopped; its utterances are of one length, as ESPnet's features at
    the end of an utterance depend on the padding of the batch."""
    folder = tmp_path_factory.mktemp("exact") / "exp"
    assert train(tiny_run, folder, *EXACT) == 0
    return folder


@pytest.mark.parametrize(("before", "then"), [(1, 2), (2, 1)])
def test_another_number_of_processes_shares_the_rest_of_the_epoch(
    before, then, tiny_run, tmp_path, after, monkeypatch, exact
):
    """With the same sums as one process that is not stopped; two processes draw other noise than one."""
    after(3, stop_parent if before > 1 else lambda: os.kill(os.getpid(), signal.SIGTERM), rank=0)
    assert train(tiny_run, tmp_path / "exp", *EXACT, nproc=before) == 75
    monkeypatch.undo()
    assert train(tiny_run, tmp_path / "exp", *EXACT, nproc=then) == 0
    log = (tmp_path / "exp" / "train.log").read_text()
    resumed = f"train epoch 1 of 2: {then} processes resume a run of {before}: they share the rest of the batches"
    assert resumed in log and "all of the epoch is trained again" not in log
    check_same(tmp_path / "exp", exact, rtol=1e-4, atol=1e-5)


def test_a_batch_that_is_not_finite_is_listed_once_and_whole(run, tmp_path, monkeypatch):
    check = NonFiniteBatches.check
    monkeypatch.setattr(non_finite, "SHARE", 1.0)

    def checked(bad, group, losses, *rest):
        found = [float("nan") if batch.number == 1 else loss for batch, loss in zip(group, losses, strict=True)]
        check(bad, group, found, *rest)

    monkeypatch.setattr(NonFiniteBatches, "check", checked)
    listed = []
    for nproc in (1, 2):
        assert train(run, tmp_path / str(nproc), *TWO, "max_epoch=1", nproc=nproc) == 0
        listed.append((tmp_path / str(nproc) / non_finite.NAME).read_text())
    assert listed[0] == listed[1] and len(listed[0].split()) == 7 + 1
