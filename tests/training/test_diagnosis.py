"""Warnings at the end of an epoch."""

import pytest

from espnet_diverse.attention import AuxiliaryLoss, Core, Diagnosis, register_core, registry
from espnet_diverse.training.diagnosis import findings

HEALTHY = {
    "loss": 60.0,
    "loss_task": 50.0,
    "aux_head_mi": 9.0,
    "aux_kl_z": 1.0,
    **{"clusters_z": 6.5, "collapsed_z": 0.1, "uniform_z": 0.0},
    **{"clusters_q": 3.5, "collapsed_q": 0.0, "uniform_q": 0.2},
}


def test_a_healthy_epoch_is_not_spoken_of():
    assert findings(HEALTHY) == []
    assert findings({"loss": 1.0, "loss_task": 1.0}) == []  # softmax attention
    assert findings(HEALTHY | {"aux_query_mi": 500.0}) == []  # mostly a constant, log T


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
    (finding,) = findings(HEALTHY | stats)
    assert text in finding


def test_a_registered_core_says_what_its_statistics_mean(monkeypatch):
    class Mine(Core):
        DIAGNOSES = (Diagnosis("dead_units", 0.5, "{value:.0%} of the units are dead", "lower the learning rate"),)
        LOSSES = {"spread": AuxiliaryLoss("spread_weight"), "constant": AuxiliaryLoss("none", comparable=False)}

    monkeypatch.setattr(registry, "_registered", {})
    stats = {"loss_task": 1.0, "dead_units": 0.6, "aux_spread": 2.0, "aux_constant": 9.0}
    assert "above all constant (9); lower its weight" in findings(stats)[0]
    register_core("mine", Mine)
    assert findings(stats) == [
        "60% of the units are dead; lower the learning rate",
        "the auxiliary losses (2) outweigh the task's (1), above all spread (2); lower spread_weight",
    ]
