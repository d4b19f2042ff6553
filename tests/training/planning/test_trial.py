"""A trial: its batches are those of the training, and counts are lines in the number of utterances."""

import numpy as np
import pytest

from espnet_diverse.training.planning.trial import Trial


def test_the_batches_are_those_of_the_training(trial: Trial):
    assert [len(rows) for rows in trial.batches] == [6, 6]
    assert sorted(np.concatenate(trial.batches)) == list(range(12))
    assert trial.size(trial.batches[0]) <= trial.size(trial.batches[1]) == trial.size(trial.largest())
    assert [list(rows) for rows in trial.strata(5)] == [list(rows) for rows in trial.batches]
    assert 0 < trial.validation < 1
    assert [trial.share(trial.batches[0], devices) for devices in (1, 2, 4)] == [6, 3, 2]


def test_counts_of_a_batch_lie_on_a_line(trial: Trial):
    row = int(trial.largest()[0])
    with trial.training(fast=False):
        trial.step([row])
        trial.update()
        line, (five, update) = trial.line(trial.largest()), trial._counted([row] * 5)
    found = line.counts(5)
    assert found.products == five.products and found.calls == five.calls and line.update == update
    assert found.peak == pytest.approx(five.peak, rel=0.02) and found.traffic == pytest.approx(five.traffic, rel=0.02)
    assert update.calls > 1 and update.products == 0
    with_moments = 3 * sum(each.nbytes for each in trial.model.parameters())  # Adam has two
    buffers = sum(each.nbytes for each in trial.model.buffers())
    assert trial.resident() == pytest.approx(with_moments + buffers, rel=0.01)
