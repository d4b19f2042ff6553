import math

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.measures.clusters import ClusterUse, rows, summary, title, topic_rows

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


def test_the_tokens_of_a_cluster_say_most_about_it():
    result = ClusterUse()
    result.add(SHARP, ["<sos>", "ing", "ed", "year"])
    result.add(SHARP[..., [1, 1, 3], :], ["ing", "ing", "month"])
    result.add(torch.full((1, 1, 1, 4), 0.25), ["the"])
    assert result.topics() == [[[["<sos>", "the"], ["ing"], ["ed", "the"], ["year", "month"]]]]
    assert result.topics(most=1)[0][0][3] == ["year"]
    uses = {("decoder", "tokens"): result, ("encoder", "frames"): use(SHARP)}
    where = "decoder self-attention: tokens"
    assert topic_rows(uses)[1] == (where, "1.1", "2", "ing") and len(topic_rows(uses)) == 4
    assert summary(uses)[where]["topics"] == result.topics()
    assert "topics" not in summary(uses)["encoder self-attention: frames"]


def test_tokens_are_ranked_by_the_mutual_information():
    """A frequent token that is half in a cluster says more than a rare one that is all in it."""
    p = torch.tensor([[0.9, 0.1]] * 8 + [[1.0, 0.0]] + [[0.0, 1.0]] * 9).view(1, 1, -1, 2)
    tokens = ["often"] * 8 + ["once"] + ["other"] * 9
    result = ClusterUse()
    result.add(p, tokens)
    share = p[0, 0, :, 0].double().mean().item()
    assert 8 * 0.9 * math.log(0.9 / share) > math.log(1 / share)
    assert result.topics()[0][0][0] == ["often", "once"]
