"""Statistics of cluster usage, and that they reach the scope."""

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.mixtures.cluster_usage import cluster_diagnoses, cluster_usage
from espnet_diverse.scope import scope

ONE_HOT = torch.eye(4)  # every token has its own cluster
UNIFORM = torch.full((4, 4), 0.25)
ONE = torch.tensor([[0.97, 0.01, 0.01, 0.01]]).expand(4, 4)


def usage(*heads, valid=None):
    """Statistics of one sequence, as numbers."""
    stats = cluster_usage(torch.stack(heads).unsqueeze(0), valid)
    return {name: round(float(value), 4) for name, value in stats.items()}


def test_one_cluster_a_token_is_healthy():
    assert usage(ONE_HOT, ONE_HOT) == {"clusters": 4.0, "collapsed": 0.0, "uniform": 0.0}


def test_collapsed_and_uniform_heads_are_told_apart():
    assert usage(ONE_HOT, ONE) == pytest.approx({"clusters": 2.5912, "collapsed": 0.5, "uniform": 0.0}, abs=1e-3)
    assert usage(UNIFORM, UNIFORM, UNIFORM, ONE_HOT) == {"clusters": 4.0, "collapsed": 0.0, "uniform": 0.75}


def test_padding_does_not_count():
    two = torch.tensor([[[True, True, False, False]]])
    assert usage(ONE_HOT, valid=two)["clusters"] == 2
    assert usage(torch.cat([ONE_HOT[:2], UNIFORM[:2]]), valid=two)["uniform"] == 0
    assert usage(UNIFORM, valid=two)["uniform"] == 1
    none = torch.zeros(1, 1, 4, dtype=torch.bool)
    assert all(map(torch.isfinite, cluster_usage(ONE_HOT[None, None], none).values()))


def test_modules_report_their_mixtures_but_not_a_lone_cluster():
    x = torch.randn(2, 5, 16)
    with scope() as shared:
        build_attention("sdma", 16, 4, n_clusters_q=1)(x, x, x, None)
    of_noise = {"noise_tokens", "noise_queries"}
    assert set(shared.stats()) == {"gamma", "clusters_z", "collapsed_z", "uniform_z"} | of_noise


def test_collapsed_and_uniform_heads_are_reported_with_a_remedy():
    collapsed, uniform = cluster_diagnoses("z", "tokens")
    assert (collapsed.statistic, uniform.statistic) == ("collapsed_z", "uniform_z")
    assert collapsed.sentence(0.5) == (
        "in 50% of the heads all tokens fall into one cluster (usage perplexity under 1.5); "
        "raise lambda_d or take fewer clusters"
    )
    assert "tell no tokens apart" in uniform.sentence(1.0)
