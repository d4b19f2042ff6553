"""A position is saved with the state of its run, and its epoch continues there."""

from functools import partial

import numpy as np
import torch
from training.checkpoints.test_run_state import fresh, position, state_of

from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.data.seeds import seed_row
from espnet_diverse.training.loop.epoch_batches import EpochBatches


def test_a_position_is_saved_with_the_epochs_before(tmp_path):
    state_of(tmp_path, weight=3.0).save_position(position())
    saved = checkpoint.load(tmp_path / checkpoint.CHECKPOINT)
    assert {"model", "reporter", "optimizers", "schedulers", "scaler"} <= saved.keys()  # as ESPnet's
    again = fresh(tmp_path)
    assert again.restore("cpu") == position()
    assert again.reporter.get_epoch() == 1 and again.reporter.stats == {1: {"train": {"loss": 3.0, "total_count": 1}}}
    assert again.updates.made == 5 and float(again.model.weight) == 3
    assert not list(tmp_path.glob("*epoch.pth"))


def test_a_loader_without_seeds_draws_the_same_from_any_position():
    """Other code, such as dropout, may draw random numbers between its batches."""

    def noisy():
        for number in range(5):
            yield [f"u{number}"], {"x": torch.rand(1), "y": torch.tensor(np.random.rand())}

    def drawn(position=None):
        with EpochBatches(noisy(), "train", None, position, partial(seed_row, 0, 1, position=0)) as epoch:
            found = []
            for (batch,) in epoch.groups(1):
                found.append([float(batch.tensors[key]) for key in "xy"])
                torch.rand(3 if position else 7)
        return found

    assert drawn(Position(1, 3, 0, 1, {})) == drawn()[3:]
