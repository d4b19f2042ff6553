"""Criteria that no statistic of an epoch meets end training after the first one."""

import pytest

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.criteria import check_criteria

STATS = {"train": {"loss": 2.0}, "valid": {"loss": 3.0, "acc": 0.5}}


def test_one_of_several_is_enough():
    check_criteria(STATS, [("train", "acc", "max"), ("valid", "acc", "max")], ("valid", "loss", "min"))
    check_criteria(STATS, [])


@pytest.mark.parametrize(
    ("best", "stopping", "said"),
    [
        (
            [("valid", "wer", "min"), ("test", "loss", "min")],
            None,
            "best_model_criterion: an epoch has no valid.wer test.l",
        ),
        ([("valid", "acc", "max")], ("train", "acc", "max"), "early_stopping_criterion: an epoch has no train.acc;"),
    ],
)
def test_what_is_not_there_is_named(best, stopping, said):
    with pytest.raises(TrainingError, match="^" + said) as error:
        check_criteria(STATS, best, stopping)
    assert str(error.value).endswith("; it has valid.loss valid.acc train.loss")
