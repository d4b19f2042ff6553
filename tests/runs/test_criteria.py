"""Invalid criteria are refused before training; criteria without a statistic end it at the first update."""

import re

import pytest
import torch
from references.train_command import train, train_until_killed

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, TrainingError
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.criteria import check_criteria, check_forms, expected_statistics, preferred_metrics

STATS = {"train": {"loss": 2.0}, "valid": {"loss": 3.0, "acc": 0.5}}


def test_one_of_several_is_enough_and_others_are_named_unless_they_are_espnets(caplog):
    best = [("train", "acc", "max"), ("valid", "acc", "max"), ("valid", "accc", "max")]
    check_criteria(STATS, {"best_model_criterion": best[:2], "early_stopping_criterion": [("valid", "loss", "min")]})
    check_criteria(STATS, {"best_model_criterion": []})
    assert not caplog.records
    check_criteria(STATS, {"best_model_criterion": best})
    assert caplog.messages == ["best_model_criterion: an epoch has no valid.accc; did you mean 'valid.acc'?"]


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("best_model_criterion", [("valid", "wer", "min"), ("test", "loss", "min")], "no valid.wer test.loss; "),
        ("early_stopping_criterion", [("train", "acc", "max")], "no train.acc; did you mean 'valid.acc'?"),
        ("val_scheduler_criterion", [("valid", "lss")], "no valid.lss; did you mean 'valid.loss'?"),
    ],
)
def test_unknown_statistics_are_named(option, given, said):
    with pytest.raises(TrainingError, match=f"^{option}: an epoch has {re.escape(said)}"):
        check_criteria(STATS, {option: given})


PARTS = "with PHASE train or valid, NAME the name of a statistic"
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


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("best_model_criterion", "[[valid, cer, min], [valid, wer, min]]"),
        ("val_scheduler_criterion", "[valid, cer]"),
        ("early_stopping_criterion", "[valid, cer, min]"),
    ],
)
def test_disabled_statistics_are_refused_as_criteria(key, given):
    silent = [f"{key}={given}", "model_conf.report_cer=false", "model_conf.report_wer=false"]
    said = f"--set {key}={given}: {key} is by cer, and the model reports none with report_cer: false; set it to true"
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        check_forms(merge([], silent))
    check_forms(merge([], [*silent, "model_conf.report_cer=true"]))
    if key == "best_model_criterion":  # one of several is enough
        check_forms(merge([], [*silent, f"{key}=[[valid, cer, min], [valid, acc, max]]"]))


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["best_model_criterion=[[valid, accuracy, max]]"], "no valid.accuracy; did you mean 'valid.acc'?"),
        (["best_model_criterion=[[train, los, min]]"], "no train.los; did you mean 'train.loss'?"),
        (["patience=1", "early_stopping_criterion=[valid, lss, min]"], "no valid.lss; did you mean 'valid.loss'?"),
        (["scheduler=reducelronplateau", "val_scheduler_criterion=[train, lss]"], "no train.lss; did you mean"),
    ],
)
def test_a_wrong_criterion_is_found_at_the_first_update(changes, said, tiny_run, tmp_path, capfd, monkeypatch):
    updates, step = [], torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *args: updates.append(1) or step(*args))
    assert train(tiny_run, tmp_path / "exp", "batch_size=2", *changes) == 1
    error = capfd.readouterr().err
    option = changes[-1].partition("=")[0]
    assert error.splitlines()[-1].startswith(f"espnet-diverse train: error: {option}: an epoch has {said}")
    assert "valid epoch 1" not in error and len(updates) == 1


def test_a_run_that_continues_within_an_epoch_checks_its_criteria_too(tiny_run, tmp_path, capfd):
    settings = ["batch_size=2", "save_interval_steps=2"]
    train_until_killed(3, tiny_run, tmp_path / "exp", *settings)
    changed = "best_model_criterion=[[valid, lss, min]]"
    assert train(tiny_run, tmp_path / "exp", *settings, changed, allow=["best_model_criterion"]) == 1
    error = capfd.readouterr().err
    assert "an epoch has no valid.lss; did you mean 'valid.loss'?" in error and "valid epoch 1" not in error


@pytest.mark.parametrize(
    "criterion", [("valid", "cer"), ("valid", "epoch"), ("train", "optim0_lr0"), ("train", "clip"), ("valid", "loss")]
)
def test_statistics_expected_after_an_epoch_pass_at_the_first_update(criterion):
    expected = expected_statistics({"loss": 1.0, "cer": None}, ["optim0_lr0"])
    check_criteria(expected, {"best_model_criterion": [(*criterion, "min")]})


@pytest.mark.parametrize("criterion", [("valid", "wer"), ("valid", "optim0_lr0"), ("train", "epoch")])
def test_unexpected_statistics_are_refused_at_the_first_update(criterion):
    expected = expected_statistics({"loss": 1.0, "cer": None}, ["optim0_lr0"])
    with pytest.raises(TrainingError, match=f"no {'.'.join(criterion)}"):
        check_criteria(expected, {"best_model_criterion": [(*criterion, "min")]})


BEST = [["train", "loss", "min"], ["valid", "loss", "min"], ["valid", "acc", "max"]]


@pytest.mark.parametrize(
    ("config", "first"),
    [
        ({"task": "asr"}, "valid.acc"),
        ({"task": "lm"}, "valid.loss"),
        ({"task": "asr", "freeze_param": ["encoder"]}, "valid.acc"),
        ({"task": "asr", "freeze_param": ["encoder", "decoder"]}, "valid.loss"),
        ({"task": "asr", "freeze_param": ["encoder.*", "decoder.*"]}, "valid.loss"),
        ({"task": "asr", "freeze_param": "*", "unfreeze_param": ["ctc.*"]}, "valid.loss"),
        ({"task": "asr", "freeze_param": ["*"], "unfreeze_param": ["*norm*"]}, "valid.acc"),
        ({"task": "asr", "freeze_param": ["*"], "unfreeze_param": ["decoder.embed"]}, "valid.acc"),
        ({"task": "asr", "freeze_param": ["*"], "use_adapter": True}, "valid.acc"),
    ],
)
def test_epochs_are_ranked_by_what_the_training_changes(config, first):
    assert preferred_metrics(config | {"best_model_criterion": BEST})[0] == preferred_metrics(config)[0] == first
