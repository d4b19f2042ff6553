import math

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.measures.redundancy import Redundancy, markdown, rows, summary


def measured(*weights):
    result = Redundancy()
    for each in weights:
        result.add(each, outputs(each))
    return result


def outputs(weights):
    """Outputs (N, H, Tq, 2) in which head h is at (3 h, 4 h): neighbours are 5 apart."""
    heads = torch.arange(weights.size(1)).view(1, -1, 1, 1) * torch.tensor([3.0, 4.0])
    return heads.expand(*weights.shape[:3], 2)


def same(heads=4, queries=3):
    return torch.full((2, heads, queries, 8), 1 / 8)


def disjoint():
    """Two layers of four heads; head h of layer n attends to key 4 n + h alone."""
    return torch.eye(8).view(2, 4, 1, 8).expand(2, 4, 3, 8)


def test_heads_that_attend_alike():
    result = measured(same())
    assert result.measures()[:3] == pytest.approx((2, 1, 1))
    assert result.shape == (2, 4) and result.matrix().shape == (8, 8)


def test_heads_that_attend_to_different_keys():
    result = measured(disjoint())
    assert result.measures()[:3] == pytest.approx((0, 0, 1 / 8))
    np.testing.assert_allclose(result.matrix(), np.eye(8), atol=1e-12)


def test_utterances_count_alike_whatever_their_length():
    result = measured(same(queries=9), disjoint())
    assert result.measures()[:3] == pytest.approx((1, 1 / 2, (1 + 1 / 8) / 2))
    np.testing.assert_allclose(result.lr_by_layer(), [1, 1])
    np.testing.assert_allclose(result.matrix().diagonal(), 1)


def test_layers_are_told_apart():
    mixed = torch.stack([same()[0], disjoint()[0]])
    np.testing.assert_allclose(measured(mixed).lr_by_layer(), [2, 0], atol=1e-12)


def test_the_table_and_the_summary_say_the_same():
    kinds = {"encoder": measured(same()), "cross": measured(disjoint())}
    assert rows(kinds) == [
        ("encoder self-attention", "2", "4", "2.00", "1.00", "1.00", "8.33", "2.08"),
        ("decoder cross-attention", "2", "4", "0.00", "0.00", "0.12", "8.33", "0.00"),
        ("mean", "", "", "1.00", "0.50", "0.56", "8.33", "1.04"),
    ]
    lines = markdown(kinds).splitlines()
    assert lines[0] == "| attention | layers | heads | LR (bits) | LR / log2 H | HR | distance | entropy (nats) |"
    assert len(lines) == 5 and {line.count("|") for line in lines} == {9}
    report = summary(kinds)
    assert list(report) == ["encoder", "cross", "mean"]
    assert report["mean"]["hr"] == pytest.approx(0.5625) and report["encoder"]["lr_bits_by_layer"] == [2, 2]


def test_one_head_has_no_normalised_redundancy():
    kinds = {"encoder": measured(same(heads=1))}
    assert math.isnan(kinds["encoder"].measures()[1])
    assert [(cells[4], cells[6]) for cells in rows(kinds)] == [("–", "–")] * 2
    mean = summary(kinds)["mean"]
    assert mean["lr_normalised"] is None and mean["distance"] is None and mean["entropy"] == pytest.approx(math.log(8))
