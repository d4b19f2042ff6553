"""A batch that is too large for the memory of a GPU is computed in halves, with the update of the whole batch."""

import os

import pytest
import torch
from references.train_command import NOISELESS, train

from espnet_diverse.nets.models import DiverseASRModel
from espnet_diverse.runs import checkpoint

pytestmark = pytest.mark.usefixtures("forks")
SETTINGS = [*NOISELESS, "batch_size=6", "accum_grad=2", "keep_nbest_models=1"]  # an update of two batches in an epoch
SAID = "CUDA out of memory.\nTried to allocate 2 GiB"


class Full(torch.autograd.Function):
    """The identity, in whose backward pass the memory is too small."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise torch.OutOfMemoryError(SAID)


@pytest.fixture
def full(monkeypatch):
    """A function that lets the memory be too small in some forward or backward passes; returns the batch sizes."""

    def at(*calls, backward=False, rank=0):
        encode, sizes = DiverseASRModel.encode, []

        def encoded(model, speech, speech_lengths):
            out, *rest = encode(model, speech, speech_lengths)
            if model.training:
                sizes.append(len(speech))
                if len(sizes) in calls and int(os.environ.get("RANK", "0")) == rank:
                    if not backward:
                        raise torch.OutOfMemoryError(SAID)
                    out = Full.apply(out)  # the decoder has its gradients by then
            return out, *rest

        monkeypatch.setattr(DiverseASRModel, "encode", encoded)
        return sizes

    return at


def weights(folder, epoch=2):
    return checkpoint.load(folder / f"{epoch}epoch.pth")


def check_same(folder, other):
    ours, theirs = weights(folder), weights(other)
    for name, value in theirs.items():
        torch.testing.assert_close(
            ours[name], value, rtol=1e-4, atol=1e-6, msg=lambda said, name=name: f"{name} {said}"
        )


@pytest.fixture(scope="module")
def straight(tiny_run, tmp_path_factory):
    """A run with enough memory."""
    folder = tmp_path_factory.mktemp("straight") / "exp"
    assert train(tiny_run, folder, *SETTINGS) == 0
    return folder


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("call", [1, 2])
def test_the_update_matches_whole_batches(call, backward, tiny_run, straight, tmp_path, full, capfd):
    full(call, backward=backward)
    assert train(tiny_run, tmp_path / "exp", *SETTINGS) == 0
    said = [
        line for line in capfd.readouterr().err.splitlines() if line.startswith("WARNING: the GPU is out of memory")
    ]
    assert len(said) == 1 and "out of memory (CUDA out of memory.) with utterances train-" in said[0]
    check_same(tmp_path / "exp", straight)
    ours, theirs = (
        checkpoint.load(folder / "checkpoint.pth")["reporter"]["stats"] for folder in (tmp_path / "exp", straight)
    )
    for epoch in (1, 2):
        for name in ("loss", "loss_att", "loss_ctc", "acc", "grad_norm", "total_count"):
            assert ours[epoch]["train"][name] == pytest.approx(theirs[epoch]["train"][name], rel=1e-4), name


@pytest.mark.recipes
@pytest.mark.parametrize(("call", "backward", "unused"), [(2, False, False), (1, True, False), (2, True, True)])
def test_two_processes_begin_the_update_again_if_one_is_out_of_memory(
    call, backward, unused, tiny_run, straight, tmp_path, full, capfd
):
    """Process 1 is out of memory in its share of 3 sentences; the losses are per token, which needs those of both."""
    full(call, backward=backward, rank=1)
    assert train(tiny_run, tmp_path / "exp", *SETTINGS, f"unused_parameters={unused}", nproc=2) == 0
    said = [
        line for line in capfd.readouterr().err.splitlines() if line.startswith("WARNING: the GPU is out of memory")
    ]
    assert len(said) == 1 and "lengths speech 12000 12000 12000, text 3 3 3; they are tried in two halves" in said[0]
    check_same(tmp_path / "exp", straight)


@pytest.mark.recipes
def test_a_share_that_is_too_large_in_halves_too_ends_both_processes_with_one_line(tiny_run, tmp_path, full, capfd):
    full(1, 2, rank=1)
    assert train(tiny_run, tmp_path / "exp", *SETTINGS, nproc=2) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("espnet-diverse train: error: the GPU is out of memory (CUDA out of memory.) with utt")
    assert "although the batch was halved; lower batch_bins or batch_size" in error


@pytest.mark.recipes
def test_a_share_of_one_sentence_stays_whole(tiny_run, straight, tmp_path, full):
    """Process 0 has one sentence more than process 1, and is out of memory in its two."""
    settings = [*SETTINGS, "batch_size=3"]
    assert train(tiny_run, tmp_path / "straight", *settings) == 0
    full(3, rank=0)
    assert train(tiny_run, tmp_path / "exp", *settings, nproc=2) == 0
    assert "they are tried in two halves" in (tmp_path / "exp" / "train.process1.log").read_text()
    check_same(tmp_path / "exp", tmp_path / "straight")
