"""Criteria of a wrong form are refused before training; those that no statistic meets end it after the first epoch."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, TrainingError
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.criteria import check_criteria, check_forms, expected_statistics

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


PARTS = "with PHASE train or valid, NAME that of a statistic"
CRITERION = f"[PHASE, NAME, MODE] {PARTS} and MODE min or max"
BAD = ["[[valid, acc]]", "[[valid, acc, maximum]]", "[[test, acc, max]]", "[[valid, 1, max]]", "[valid, acc, max]"]


@pytest.mark.parametrize("value", [*BAD, "valid.acc", "null", "3", "[[valid, [acc], max]]", "[[valid, acc, [max]]]"])
def test_best_model_criteria_of_a_wrong_form_are_refused_with_their_origin(value):
    with pytest.raises(ConfigError) as error:
        check_forms(merge([], [f"best_model_criterion={value}"]))
    assert str(error.value).startswith(f"--set best_model_criterion={value}: best_model_criterion is ")
    assert str(error.value).endswith(f"; give a list of {CRITERION}, such as [[valid, acc, max]]")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("early_stopping_criterion=[valid, loss]", f"['valid', 'loss']; give {CRITERION}, such as [valid, loss, min]"),
        ("early_stopping_criterion=loss", f"'loss'; give {CRITERION}, such as [valid, loss, min]"),
        (
            "val_scheduler_criterion=[valid, loss, min]",
            f"['valid', 'loss', 'min']; give [PHASE, NAME] {PARTS}, such as [valid, loss]",
        ),
    ],
)
def test_other_criteria_of_a_wrong_form_are_refused(change, said):
    with pytest.raises(ConfigError) as error:
        check_forms(merge([], [change]))
    assert str(error.value) == f"--set {change}: {change.partition('=')[0]} is {said}"


def test_criteria_of_the_right_form_pass():
    check_forms(merge([], []))
    best = "best_model_criterion=[[valid, acc, max], [train, loss, min], [valid, epoch, max]]"
    others = ["early_stopping_criterion=[valid, loss, min]", "val_scheduler_criterion=[valid, acc]"]
    check_forms(merge([], [best, *others]))


def test_training_does_not_begin_with_a_wrong_criterion(tiny_run, tmp_path, capfd):
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    change = "best_model_criterion=[[valid, acc]]"
    assert main(["train", *tiny_run.config, *tiny_run.data(), *paths, f"--set={change}"]) == 1
    assert f"error: --set {change}: best_model_criterion is " in capfd.readouterr().err
    assert not (tmp_path / "exp").exists()


def test_a_wrong_criterion_is_found_at_the_first_batch(tiny_run, tmp_path, capfd):
    data = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    change = "--set=best_model_criterion=[[valid, accuracy, max]]"
    assert main(["train", *tiny_run.config, *tiny_run.data(), *data, change]) == 1
    said = capfd.readouterr().err
    assert "best_model_criterion: an epoch has no valid.accuracy; it has valid." in said.splitlines()[-1]
    assert "valid.acc " in said and "valid.cer " in said  # which are measured in validation alone, too
    assert "valid epoch 1" not in said and "2 steps" not in said


@pytest.mark.parametrize(
    "criterion", [("valid", "cer"), ("valid", "epoch"), ("train", "optim0_lr0"), ("valid", "loss")]
)
def test_what_may_be_there_after_an_epoch_is_not_refused_at_the_first_batch(criterion):
    check_criteria(expected_statistics({"loss": 1.0, "cer": None}), [(*criterion, "min")])


def test_what_the_first_batch_lacks_is_refused():
    with pytest.raises(TrainingError, match=r"no valid\.wer; it has valid\.loss valid\.cer valid\.epoch"):
        check_criteria(expected_statistics({"loss": 1.0, "cer": None}), [("valid", "wer", "min")])
