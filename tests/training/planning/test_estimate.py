"""An estimate: seconds, bytes and numbers of utterances follow from the counts of batches."""

from dataclasses import replace

import pytest

from espnet_diverse.runs.operations import Counts
from espnet_diverse.training.planning.devices import CONTEXT, DEVICES
from espnet_diverse.training.planning.estimate import estimate
from espnet_diverse.training.planning.trial import Line


def test_several_gpus_share_a_batch(trial):
    one, two = (estimate(trial, DEVICES["a100"], number) for number in (1, 2))
    assert CONTEXT + trial.resident() < two.peak < one.peak and two.largest == pytest.approx(2 * one.largest, rel=0.1)
    assert two.counts.products == pytest.approx(one.counts.products / 2)
    assert one.disk == two.disk > 4 * 4 * sum(each.numel() for each in trial.model.parameters())
    assert estimate(trial, DEVICES["a100"]._replace(memory=CONTEXT)).largest == 0


def test_the_largest_batch_fills_the_memory(trial):
    found = estimate(trial, DEVICES["4090"])
    line = found.line.counts
    taken = CONTEXT + trial.resident()
    assert taken + line(found.largest).peak <= DEVICES["4090"].memory < taken + line(found.largest + 1).peak


def test_an_epoch_has_its_updates_and_validation(trial):
    found = replace(estimate(trial, DEVICES["a100"]), step=3.0, update=1.0)
    assert found.epoch == pytest.approx(len(trial.batches) * 4 * (1 + trial.validation / 3))


def test_a_small_batch_needs_the_memory_of_an_update():
    line = Line(fixed=Counts(peak=10), further=Counts(peak=5), update=Counts(), least=40)
    assert [line.counts(number).peak for number in (1, 6, 8)] == [40, 40, 50]
