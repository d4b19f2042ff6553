import logging
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from espnet2.train.reporter import Reporter

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints import averaging

ACC = {1: 0.1, 2: 0.4, 3: 0.3, 4: 0.4, 5: math.nan}
LOSS = {1: 4.0, 2: 3.0, 3: 2.0, 4: 1.0, 5: 9.0}
CRITERIA = [["valid", "acc", "max"], ["valid", "loss", "min"]]


@pytest.fixture
def model_dir(tmp_path):
    """A run of five epochs; epoch e has the parameter 1 + e * 1e-4 and the counter e."""
    for epoch in ACC:
        state = {"w": torch.tensor([1 + epoch * 1e-4]), "count": torch.tensor(epoch)}
        checkpoint.save(state, tmp_path / f"{epoch}epoch.pth")
    stats = {epoch: {"valid": {"acc": ACC[epoch], "loss": LOSS[epoch]}} for epoch in ACC}
    checkpoint.save({"reporter": {"stats": stats}}, tmp_path / "checkpoint.pth")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"best_model_criterion": CRITERIA}))
    return tmp_path


def parameter(*epochs: int) -> torch.Tensor:
    """The mean in double precision of what float32 holds, rounded once."""
    values = [torch.tensor(1 + epoch * 1e-4).double() for epoch in epochs]
    return torch.stack(values).mean().float()


def test_the_best_epochs_are_averaged_and_integers_are_the_newest(model_dir):
    path = averaging.average(model_dir, "valid.acc", 3)
    assert path == model_dir / "valid.acc.ave.pth"
    state = checkpoint.load(path)
    assert state["w"] == parameter(2, 3, 4) and state["w"].dtype == torch.float32
    assert state["count"] == 4


def test_tied_parameters_are_stored_once(tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"best_model_criterion": CRITERIA[:1]}))
    for epoch in (1, 2):
        tied = torch.full((300, 100), float(epoch))
        state = {"embed": tied, "output": tied, "part": tied[:200], "equal": tied.clone()}
        checkpoint.save(state, tmp_path / f"{epoch}epoch.pth")
    stats = {epoch: {"valid": {"acc": 0.1 * epoch}} for epoch in (1, 2)}
    checkpoint.save({"reporter": {"stats": stats}}, tmp_path / "checkpoint.pth")
    found = checkpoint.load(averaging.average(tmp_path, "valid.acc", 2))
    assert all(bool((found[name] == 1.5).all()) for name in state)
    assert found["embed"].data_ptr() == found["output"].data_ptr() != found["equal"].data_ptr()


def test_fewer_epochs_than_asked_for_are_averaged_with_a_warning(model_dir, caplog):
    averaging.average(model_dir, "valid.acc", 4)
    assert not caplog.records
    assert checkpoint.load(averaging.average(model_dir, "valid.acc", 10))["w"] == parameter(1, 2, 3, 4)
    assert "4 of the 10 epochs that are asked for: the run has no more with a finite valid.acc; " in caplog.text


def test_of_equal_epochs_the_earlier_is_better_as_for_espnet(model_dir):
    assert checkpoint.load(averaging.average(model_dir, "valid.acc", 1))["count"] == 2


@pytest.mark.parametrize("mode", ["max", "min"])
def test_ties_rank_as_in_the_reporter_that_deletes_epochs(mode):
    """ESPnet keeps the files of `sort_epochs`, so an average of others would find some of them deleted."""
    random = np.random.default_rng(0)
    for _ in range(50):
        reporter = Reporter(epoch=9)
        values = random.integers(0, 4, 9) / 4
        reporter.stats = {epoch: {"valid": {"acc": float(value)}} for epoch, value in enumerate(values, start=1)}
        assert averaging.rank_epochs(reporter.stats, "valid.acc", mode) == reporter.sort_epochs("valid", "acc", mode)


def test_a_damaged_epoch_is_named_and_the_others_are_used(model_dir, caplog):
    damaged = model_dir / "3epoch.pth"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    path = averaging.average(model_dir, "valid.acc", 3)
    assert f"{damaged}: the file is damaged" in caplog.text and "averaging the others" in caplog.text
    assert checkpoint.load(path)["w"] == parameter(2, 4)
    for file in model_dir.glob("*epoch.pth"):
        file.write_bytes(b"PK")
    with pytest.raises(ModelError, match="is not a checkpoint"):
        averaging.average(model_dir, "valid.acc", 3)


def test_statistics_come_from_the_save_before_a_damaged_one(model_dir, caplog):
    newest = model_dir / checkpoint.CHECKPOINT
    newest.replace(model_dir / checkpoint.PREVIOUS)
    newest.write_bytes(b"PK")
    assert checkpoint.load(averaging.average(model_dir, "valid.acc", 1))["count"] == 2
    assert "taken instead: checkpoint.previous.pth" in caplog.text


@pytest.mark.parametrize("given", [{}, {"best_model_criterion": None}, {"best_model_criterion": [["valid", "acc"]]}])
def test_a_configuration_without_criteria_is_named(given, model_dir):
    (model_dir / "config.yaml").write_text(yaml.safe_dump({"max_epoch": 5, **given}))
    with pytest.raises(ModelError) as error:
        averaging.average(model_dir)
    said = f"best_model_criterion is {given.get('best_model_criterion')!r}, not a list of [PHASE, NAME, MODE]; give the"
    assert str(error.value).startswith(f"{model_dir / 'config.yaml'}: {said} directory of a run that this package or")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "has no statistics by which the best epochs are chosen"),
        ({"reporter": None}, "reporter is None; "),
        ({"reporter": {"epoch": 3}}, "reporter is without stats; "),
        ({"reporter": {"stats": {"../x": {"valid": {"acc": 0.5}}}}}, r"a key of reporter.stats is '../x'; "),
        (
            {"reporter": {"stats": {1: {"valid": {"acc": "0.5"}}}}},
            r"reporter.stats\[1\]\['valid'\]\['acc'\] is '0.5'; ",
        ),
        ({"reporter": {"stats": {1: {"valid": 0.5}}}}, r"reporter.stats\[1\]\['valid'\] is 0.5; "),
        ({"reporter": {"stats": [1]}}, "reporter.stats is a list of 1; "),
    ],
)
def test_a_checkpoint_without_statistics_or_with_odd_ones_is_named(state, said, model_dir):
    checkpoint.save(state, model_dir / "checkpoint.pth")
    with pytest.raises(ModelError, match=rf"checkpoint\.pth: {said}"):
        averaging.average(model_dir)


def test_the_state_of_a_run_is_no_epoch(model_dir, caplog):
    shutil.copy(model_dir / "checkpoint.pth", model_dir / "2epoch.pth")
    averaging.average(model_dir, "valid.acc", 2)
    assert "2epoch.pth: holds the state of a run without the parameters of a model" in caplog.text


def test_a_lost_epoch_is_named_and_the_others_are_used(model_dir, caplog):
    (model_dir / "3epoch.pth").unlink()
    with caplog.at_level(logging.WARNING):
        path = averaging.average(model_dir, "valid.acc", 3)
    assert "epochs 3 have no file any more (keep_nbest_models); averaging the other 2" in caplog.text
    assert checkpoint.load(path)["w"] == parameter(2, 4)


def test_a_language_model_is_averaged_by_its_loss(model_dir):
    """Its run keeps epochs by ESPnet's criteria, of which it measures no accuracy."""
    stats = {epoch: {"valid": {"loss": LOSS[epoch]}, "train": {"loss": 1.0}} for epoch in ACC}
    checkpoint.save({"reporter": {"stats": stats}}, model_dir / "checkpoint.pth")
    criteria = [[phase, *named] for named in (["loss", "min"], ["acc", "max"]) for phase in ("train", "valid")]
    for task in ("lm", "asr"):  # of CTC alone
        (model_dir / "config.yaml").write_text(yaml.safe_dump({"task": task, "best_model_criterion": criteria}))
        assert averaging.average(model_dir, number=1).name == "valid.loss.ave.pth"
    with pytest.raises(
        ConfigError, match=r"no epoch has a finite valid\.acc; --metric may be: valid\.loss train\.loss"
    ):
        averaging.average(model_dir, "valid.acc")


def test_no_epoch_left(model_dir):
    for epoch in ACC:
        (model_dir / f"{epoch}epoch.pth").unlink()
    with pytest.raises(ModelError, match="no epoch file is left to average; train again"):
        averaging.average(model_dir)


@pytest.mark.parametrize(
    "other", [{"v": torch.ones(1)}, {"w": torch.ones(3), "count": torch.tensor(4)}], ids=["names", "shapes"]
)
def test_epochs_of_different_models(model_dir, other):
    checkpoint.save(other, model_dir / "4epoch.pth")
    with pytest.raises(ModelError, match=r"4epoch\.pth: its parameters differ from those of 2epoch\.pth"):
        averaging.average(model_dir, "valid.acc", 2)


def test_wrong_requests(model_dir, tmp_path_factory):
    with pytest.raises(ConfigError, match=r"unknown metric 'valid.cer'; .* has: valid.acc valid.loss"):
        averaging.average(model_dir, "valid.cer")
    with pytest.raises(ConfigError, match="0 epochs cannot be averaged"):
        averaging.average(model_dir, number=0)
    with pytest.raises(ModelError, match=r"config\.yaml cannot be read \(No such file.*give the directory of"):
        averaging.average(tmp_path_factory.mktemp("empty"))


def test_a_criterion_that_was_never_finite_does_not_end_a_training(model_dir, caplog):
    stats = checkpoint.load(model_dir / "checkpoint.pth")["reporter"]["stats"]
    for phases in stats.values():
        phases["valid"]["cer"] = math.nan
    reporter = SimpleNamespace(stats=stats, has=lambda phase, name: True)
    averaging.average_best(model_dir, reporter, [["valid", "cer", "min"], *CRITERIA], 2)
    assert (model_dir / "valid.acc.ave.pth").exists() and not (model_dir / "valid.cer.ave.pth").exists()
    assert "valid.cer.ave.pth is not written, because valid.cer was finite in no epoch" in caplog.text


def test_at_the_end_of_training_each_criterion_has_its_own_average(model_dir):
    stats = checkpoint.load(model_dir / "checkpoint.pth")["reporter"]["stats"]
    reporter = SimpleNamespace(stats=stats, has=lambda phase, name: name != "cer")
    criteria = [*CRITERIA, ["valid", "cer", "min"]]
    averaging.average_best(model_dir, reporter, criteria, 2)
    assert checkpoint.load(model_dir / "valid.acc.ave.pth")["w"] == parameter(2, 4)
    assert checkpoint.load(model_dir / "valid.loss.ave.pth")["w"] == parameter(3, 4)
    assert not (model_dir / "valid.cer.ave.pth").exists()
    averaging.average_best(model_dir, reporter, CRITERIA, 1, "till5epoch")
    assert checkpoint.load(model_dir / "valid.acc.ave.till5epoch.pth")["count"] == 2
