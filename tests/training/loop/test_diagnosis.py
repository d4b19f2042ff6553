"""Warnings at the end of an epoch."""

import pytest
from torch import nn

from espnet_diverse.attention import AuxiliaryLoss, Core, Diagnosis, build_attention, register_core, registry
from espnet_diverse.attention.cores.sdma import SDMA
from espnet_diverse.attention.cores.softmax import Softmax
from espnet_diverse.attention.modifiers.disagreement import Disagreement
from espnet_diverse.attention.selection.learned_selection import LearnedSelection
from espnet_diverse.nets.memory.base import MemoryOptions
from espnet_diverse.nets.memory.cdt import CDTMemory
from espnet_diverse.nets.memory.xl import XLMemory
from espnet_diverse.training.loop.diagnosis import findings, monitored_parts

OURS = [SDMA, CDTMemory, Disagreement, LearnedSelection]
HEALTHY = {
    "loss": 60.0,
    "loss_task": 50.0,
    "aux_head_mi": 90.0,  # the size of a loss says little
    "gradient_head_mi": 2.9,
    "gradient_kl_z": 0.1,
    **{"clusters_z": 6.5, "collapsed_z": 0.1, "uniform_z": 0.0},
    **{"clusters_q": 3.5, "collapsed_q": 0.0, "uniform_q": 0.2},
}


def test_a_healthy_epoch_is_not_spoken_of():
    assert findings(HEALTHY, OURS) == []
    assert findings({"loss": 1.0, "loss_task": 1.0}, [Softmax]) == []  # softmax attention
    assert findings(HEALTHY | {"gradient_kl_z": float("nan")}, OURS) == []


@pytest.mark.parametrize(
    ("stats", "text"),
    [
        ({"collapsed_z": 0.5}, "in 50% of the heads all tokens fall into one cluster (usage perplexity under 1.5);"),
        ({"collapsed_q": 1.0}, "in 100% of the heads all queries fall into one cluster"),
        ({"uniform_z": 0.25}, "in 25% of the heads the clusters tell no tokens apart (posteriors are uniform);"),
        ({"uniform_q": 0.3}, "in 30% of the heads the clusters tell no queries apart"),
        (
            {"gradient_kl_z": 4.25},
            "the gradient of the auxiliary loss kl_z is 4.25 times the task's where it is "
            "strongest; lower lambda_k or auxiliary_factor",
        ),
        ({"gradient_head_mi": 3.1}, "is 3.1 times the task's where it is strongest; lower lambda_q"),
        ({"gradient_query_mi": 4.0}, "lower lambda_x"),
        ({"gradient_disagreement": 4.0}, "lower disagreement.weight or auxiliary_factor"),
        ({"gradient_memory_constraint": 4.0}, "lower mem_weight"),
        ({"gradient_head_kl": 4.0}, "lower selection.kl_weight"),
        ({"gradient_of_another_core": 4.0}, "of_another_core is 4 times the task's where"),
    ],
)
def test_one_sentence_for_each_thing_amiss(stats, text):
    (finding,) = findings(HEALTHY | stats, OURS)
    assert text in finding


class Mine(Core):
    DIAGNOSES = (
        Diagnosis("dead_units", 0.5, "{value:.0%} of the units are dead", "lower the learning rate"),
        Diagnosis("collapsed_z", 0.0, "mine", "nothing"),
    )
    LOSSES = {"spread": AuxiliaryLoss("spread_weight")}


def test_a_core_brings_its_own_diagnoses():
    stats = {"loss_task": 1.0, "dead_units": 0.6, "gradient_spread": 4.0}
    assert "spread is 4 times the task's where it is strongest; lower its" in findings(stats, OURS)[0]
    assert findings(stats, [Mine])[0] == "60% of the units are dead; lower the learning rate"
    assert findings(stats, [Mine])[-1] == (
        "the gradient of the auxiliary loss spread is 4 times the task's where it is strongest; "
        "lower spread_weight or auxiliary_factor"
    )


def test_a_registered_core_that_the_model_does_not_have_changes_no_warning(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    model = nn.ModuleList(
        [build_attention("sdma", 8, 2), build_attention("sdma", 8, 2), build_attention("softmax", 8, 2)]
        + [XLMemory(8, 2, MemoryOptions())]
    )
    register_core("mine", Mine)
    assert monitored_parts(model) == [SDMA, Softmax, XLMemory]
    assert findings(HEALTHY, monitored_parts(model)) == []
    assert findings(HEALTHY, [*monitored_parts(model), Mine]) == ["mine; nothing"]
