"""Values that a core gives to analysis and training."""

import dataclasses

import pytest
import torch

from espnet_diverse.attention import CORES
from espnet_diverse.attention.inspection import Diagnosis, HeadMap, Inspection

DIAGNOSES = [diagnosis for core in CORES.values() for diagnosis in core.DIAGNOSES]


def test_the_sentence_has_the_value_in_its_format():
    diagnosis = Diagnosis("dead_units", 0.5, "{value:.0%} of the units are dead", "lower the learning rate")
    assert diagnosis.sentence(0.625) == "62% of the units are dead; lower the learning rate"
    assert Diagnosis("x", 0.0, "units are dead", "stop").sentence(1.0) == "units are dead; stop"


@pytest.mark.parametrize("diagnosis", DIAGNOSES, ids=lambda each: each.statistic)
def test_each_diagnosis_of_a_core_is_a_sentence_with_its_value(diagnosis):
    assert diagnosis.sentence(0.9) != diagnosis.sentence(0.1)
    assert "{" not in diagnosis.sentence(0.9) and diagnosis.remedy


@pytest.mark.parametrize("core", CORES.values(), ids=list(CORES))
def test_each_loss_of_a_core_is_weighted_by_one_of_its_options(core):
    options = {field.name for field in dataclasses.fields(core.Options)}
    assert {loss.weight for loss in core.LOSSES.values()} <= options


def test_a_core_that_reports_nothing_has_nothing_to_show():
    first, second = Inspection(), Inspection()
    assert first.maps == first.posteriors == {} and first.maps is not second.maps
    with pytest.raises(dataclasses.FrozenInstanceError):
        HeadMap("a", "b", torch.zeros(1)).title = "c"
