"""Scores of classes against values computed by hand."""

from math import sqrt

import numpy as np
import pytest

from espnet_diverse.scoring.classification import class_scores

LABELS = ["a", "b", "c"]
TRUE = ["a", "a", "b", "b", "c"]
SAID = ["a", "b", "b", "b", "a"]
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.6, 0.2], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2]])


def test_scores_of_three_classes():
    found = class_scores(TRUE, SAID, PROBABILITIES, LABELS)
    # a: 1 right, 1 said wrongly, 1 missed; b: 2 right, 1 said wrongly; c: never said.
    assert found["f1_by_class"] == pytest.approx({"a": 0.5, "b": 0.8, "c": 0.0})
    assert found["f1"] == pytest.approx(1.3 / 3)
    # Pairs of one inside and one outside that are in order: a 5 of 6, b 6 of 6, c 2 and two halves of 4.
    assert found["auc"] == pytest.approx((5 / 6 + 1 + 3 / 4) / 3)
    # By falling probability: a is at 1 and 3, b at 1 and 2, and c at the tie of ranks 1 to 3.
    assert found["auc_pr"] == pytest.approx(((1 + 2 / 3) / 2 + 1 + 1 / 3) / 3)
    # Gorodkin 2004: right 3 of 5, true (2, 2, 1), said (2, 3, 0): (3 * 5 - 10) / sqrt((25 - 9) (25 - 13)).
    assert found["mcc"] == pytest.approx(5 / sqrt(16 * 12))


def test_matthews_of_two_classes_matches_the_four_cells():
    said, true = ["p"] * 5 + ["n"] * 5, ["p"] * 4 + ["n"] + ["p"] * 2 + ["n"] * 3
    found = class_scores(true, said, np.full((10, 2), 0.5), ["n", "p"])
    assert found["mcc"] == pytest.approx((4 * 3 - 1 * 2) / sqrt(5 * 6 * 4 * 5))
    assert found["auc"] == 0.5


def test_a_class_that_the_model_does_not_know_is_never_right():
    found = class_scores(["a", "z"], ["a", "a"], np.array([[0.9, 0.1], [0.6, 0.4]]), ["a", "b"])
    assert found["f1_by_class"] == pytest.approx({"a": 2 / 3, "z": 0.0}) and found["auc"] == 1.0


def test_one_true_class_has_no_area():
    found = class_scores(["a", "a"], ["a", "b"], np.full((2, 2), 0.5), ["a", "b"])
    assert "auc" not in found and "auc_pr" not in found and found["mcc"] == 0


@pytest.mark.filterwarnings("error")
def test_one_class_that_is_always_right_has_no_correlation():
    found = class_scores(["a", "a"], ["a", "a"], np.full((2, 2), 0.5), ["a", "b"])
    assert found == {"f1": 1.0, "mcc": 0.0, "f1_by_class": {"a": 1.0}}
