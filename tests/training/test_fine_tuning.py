"""Stages of fine-tuning: those that were finished before are skipped, by Python and by the command."""

import shutil
from pathlib import Path

import pytest
from references.records import finish

from espnet_diverse import FineTuningOptions, fine_tune
from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.training.fine_tuning import fine_tuning_stages

ONCE = ["max_epoch=1"]


@pytest.fixture
def folder(tiny_run, tmp_path, monkeypatch):
    """A working directory with a model and data."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_run.model_dir, "exp/a")
    for name in ("data/train", "data/dev"):
        Path(name).mkdir(parents=True)
    return tmp_path


def begin(output, fragments, options):
    """Write start.yaml, and records as if its stages had finished."""
    fine_tuning_stages(Path("exp/a"), Path("data"), Path(output), fragments, ONCE, options)
    finish(output)


def test_finished_stages_are_skipped(folder, capfd):
    begin("exp/c", ["adapter/lora"], one := FineTuningOptions(number=1))
    fine_tune("exp/a", "data", "exp/c", config="adapter/lora", settings={"max_epoch": 1}, options=one)
    assert capfd.readouterr().out.count("up to date") == 3
    given = {"tokens_dir": "exp/a/tokens", "allow_changed": ["max_epoch"], "model_file": "valid.acc.ave.pth"}
    begin("exp/d", [], other := FineTuningOptions(restart=True, **given))
    fine_tune("exp/a", "data", "exp/d", settings={"max_epoch": 1}, options=other)
    assert capfd.readouterr().out.count("up to date") == 3
    begin("exp/e", ["adapter/lora"], FineTuningOptions())
    words = ["--output_dir", "exp/e", "--set", "max_epoch=1", "--config", "adapter/lora"]
    assert main(["fine-tune", "exp/a", "data/", *words]) == 0
    assert capfd.readouterr().out.count("up to date") == 3


def test_a_model_is_not_replaced_by_its_own_fine_tuning(folder):
    with pytest.raises(ConfigError, match="exp/a: is the directory of the model itself; give another one"):
        fine_tuning_stages(Path("exp/a"), Path("data"), Path("exp/a"), [], [], FineTuningOptions())
