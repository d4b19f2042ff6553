"""Warnings at the end of an epoch."""

import pytest
from torch import nn

from espnet_diverse.attention import AuxiliaryLoss, Core, Diagnosis, build_attention, register_core, registry
from espnet_diverse.attention.sdma import SDMA
from espnet_diverse.attention.softmax import Softmax
from espnet_diverse.training.diagnosis import cores_of, findings

OURS = [SDMA]
HEALTHY = {
    "loss": 60.0,
    "loss_task": 50.0,
    "aux_head_mi": 9.0,
    "aux_kl_z": 1.0,
    **{"clusters_z": 6.5, "collapsed_z": 0.1, "uniform_z": 0.0},
    **{"clusters_q": 3.5, "collapsed_q": 0.0, "uniform_q": 0.2},
}


def test_a_healthy_epoch_is_not_spoken_of():
    assert findings(HEALTHY, OURS) == []
    assert findings({"loss": 1.0, "loss_task": 1.0}, [Softmax]) == []  # softmax attention
    assert findings(HEALTHY | {"aux_query_mi": 500.0}, OURS) == []  # mostly a constant, log T


@pytest.mark.parametrize(
    ("stats", "text"),
    [
        ({"collapsed_z": 0.5}, "in 50% of the heads all tokens fall into one cluster (usage perplexity under 1.5);"),
        ({"collapsed_q": 1.0}, "in 100% of the heads all queries fall into one cluster"),
        ({"uniform_z": 0.25}, "in 25% of the heads the clusters tell no tokens apart (posteriors are uniform);"),
        ({"uniform_q": 0.3}, "in 30% of the heads the clusters tell no queries apart"),
        (
            {"aux_kl_z": 45.0},
            "the auxiliary losses (54) outweigh the task's (50), above all kl_z (45); lower lambda_k",
        ),
        ({"aux_head_mi": 50.0}, "above all head_mi (50); lower lambda_q"),
        ({"aux_of_another_core": 50.0}, "above all of_another_core (50); lower its weight"),
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
    LOSSES = {"spread": AuxiliaryLoss("spread_weight"), "constant": AuxiliaryLoss("none", comparable=False)}


def test_a_core_says_what_its_statistics_mean():
    stats = {"loss_task": 1.0, "dead_units": 0.6, "aux_spread": 2.0, "aux_constant": 9.0}
    assert "above all constant (9); lower its weight" in findings(stats, OURS)[0]
    assert findings(stats, [Mine])[0] == "60% of the units are dead; lower the learning rate"
    assert findings(stats, [Mine])[-1] == (
        "the auxiliary losses (2) outweigh the task's (1), above all spread (2); lower spread_weight"
    )


def test_a_registered_core_that_the_model_does_not_have_changes_no_warning(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    model = nn.ModuleList(
        [build_attention("sdma", 8, 2), build_attention("sdma", 8, 2), build_attention("softmax", 8, 2)]
    )
    register_core("mine", Mine)
    assert cores_of(model) == [SDMA, Softmax]
    assert findings(HEALTHY, cores_of(model)) == []
    assert findings(HEALTHY, [*cores_of(model), Mine]) == ["mine; nothing"]
