import numpy as np
import pytest
import torch

from espnet_diverse.analysis.measures.clusters import ClusterUse, rows, summary, title

SHARP = torch.eye(4).view(1, 1, 4, 4)  # one layer, one head; four positions, each in a cluster of its own
UNIFORM = torch.full((1, 1, 4, 4), 0.25)
COLLAPSED = torch.eye(4)[:1].expand(1, 1, 4, 4)


def use(*posteriors):
    result = ClusterUse()
    for p in posteriors:
        result.add(p)
    return result


@pytest.mark.parametrize(
    ("p", "used", "own", "collapsed", "uniform"),
    [(SHARP, 4, 1, False, False), (UNIFORM, 4, 4, False, True), (COLLAPSED, 1, 1, True, False)],
)
def test_perplexities_tell_good_from_bad(p, used, own, collapsed, uniform):
    result = use(p)
    assert result.usage_perplexity() == pytest.approx(used) and result.own_perplexity() == pytest.approx(own)
    assert result.collapsed().item() is collapsed and result.uniform().item() is uniform


def test_one_cluster_is_no_collapse():
    result = use(torch.ones(1, 1, 5, 1))
    assert not result.collapsed().any() and not result.uniform().any()


def test_positions_count_alike_over_utterances():
    result = use(COLLAPSED.expand(2, 3, 4, 4), SHARP.expand(2, 3, 4, 4), SHARP.expand(2, 3, 4, 4))
    np.testing.assert_allclose(result.usage(), np.broadcast_to([0.5, 1 / 6, 1 / 6, 1 / 6], (2, 3, 4)))
    assert result.positions == 12


def test_the_table_gives_ranges_and_counts():
    uses = {("cross", "frames"): use(torch.cat([SHARP, UNIFORM, COLLAPSED]))}
    assert title("cross", "frames") == "decoder cross-attention: frames"
    assert rows(uses) == [(title("cross", "frames"), "4", "1.00 – 4.00", "1.00 – 4.00", "1 of 3", "1 of 3")]
    report = summary(uses)["decoder cross-attention: frames"]
    assert report["clusters"] == 4 and np.shape(report["usage_perplexity"]) == (3, 1)
