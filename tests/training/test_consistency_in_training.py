"""Training with consistency: two passes in training alone, decoding, and resumption bit for bit."""

import math

import pytest
import torch
from references.train_command import assert_packed_decodes_the_same, train, train_until_killed

from espnet_diverse.runs import checkpoint

BOTH = "model_conf.consistency={r_drop: 1.0, cr_ctc: 0.2}"
MASKS = ["specaug=specaug", "specaug_conf={apply_time_warp: true, time_mask_width_range: [0, 10]}"]
CHANGES = [BOTH, *MASKS, "batch_size=2", "accum_grad=2", "save_interval_steps=2", "keep_nbest_models=1"]


@pytest.fixture(scope="module")
def straight(tiny_run, tmp_path_factory):
    """A run of two epochs of 6 batches, 2 an update, that is not stopped."""
    folder = tmp_path_factory.mktemp("straight") / "exp"
    assert train(tiny_run, folder, *CHANGES) == 0
    return folder


def test_the_terms_match_training_alone(straight):
    stats = checkpoint.load(straight / checkpoint.CHECKPOINT)["reporter"]["stats"]
    for phases in stats.values():
        assert {"aux_r_drop", "aux_cr_ctc"} <= phases["train"].keys()
        assert not {"aux_r_drop", "aux_cr_ctc"} & phases["valid"].keys()
        assert all(
            math.isfinite(phases["train"][name]) and phases["train"][name] > 0 for name in ("aux_r_drop", "loss")
        )


def test_it_decodes_and_packs(straight, tiny_run, tmp_path):
    assert_packed_decodes_the_same(straight, tiny_run.test_dir, tmp_path)


def test_a_run_that_was_killed_continues_bit_for_bit(straight, tiny_run, tmp_path):
    train_until_killed(9, tiny_run, tmp_path / "exp", *CHANGES)
    assert checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["within_epoch"]["batches"] == 2
    assert train(tiny_run, tmp_path / "exp", *CHANGES) == 0
    ours, theirs = (checkpoint.load(folder / "2epoch.pth") for folder in (tmp_path / "exp", straight))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_several_processes_train_together(tiny_run, tmp_path, forks):
    """With losses by token, whose numbers the processes exchange."""
    changes = [BOTH, "model_conf.length_normalized_loss=true", "batch_size=4", "max_epoch=1"]
    assert train(tiny_run, tmp_path / "exp", *changes, nproc=2) == 0
    stats = checkpoint.load(tmp_path / "exp" / checkpoint.CHECKPOINT)["reporter"]["stats"][1]["train"]
    assert all(math.isfinite(stats[name]) and stats[name] > 0 for name in ("loss", "aux_r_drop", "aux_cr_ctc"))
