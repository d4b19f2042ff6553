"""Stages of Python are those of the commands: what was finished before stays finished."""

from pathlib import Path

import pytest
from conftest import OVERRIDES
from references.records import finish

from espnet_diverse import TrainingOptions, train
from espnet_diverse.bin.main import command_parser, main
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.training.pipeline import Averaging, Characters, Statistics, Training, model_stages, sets_of

SETTINGS = {**OVERRIDES, "best_model_criterion": [["valid", "acc", "max"]], "max_epoch": 1, "optim_conf": {"lr": 1e-3}}
SHARED = {
    "config": "model/tiny,attention/sdma",
    "train_dir": Path("a b"),
    "valid_dir": Path("v"),
    "tokens_dir": Path("t"),
}
MORE = {"init_param": ["m:a:b"], "allow_changed": ["max_epoch", "data"], "restart": True, "processes": {"ngpu": 2}}


@pytest.fixture
def folder(tiny_run, tmp_path, monkeypatch):
    """A working directory with a model and data."""
    monkeypatch.chdir(tmp_path)
    Path("exp/a").mkdir(parents=True)
    for name in ("config.yaml", "checkpoint.pth", "valid.acc.ave.pth"):
        Path("exp/a", name).symlink_to(tiny_run.model_dir / name)
    for name in ("data/train", "data/dev"):
        Path(name).mkdir(parents=True)
    return tmp_path


def skipped(capfd):
    """Whether each line says that a stage is up to date."""
    return [line.endswith("up to date") for line in capfd.readouterr().out.splitlines()]


def test_stages_that_python_finished_are_skipped(folder, capfd):
    finish("exp/a")
    train("model/tiny,attention/sdma", "data", "exp/a", settings=SETTINGS, options=TrainingOptions(number=1))
    assert skipped(capfd) == [True] * 4
    finish("exp/b")
    given = {"init_param": ["exp/a:encoder:encoder"], "allow_changed": ["max_epoch", "data"], "restart": True}
    train(
        ["model/tiny", "attention/sdma"],
        "data",
        "exp/b",
        "exp/a/tokens",
        settings=SETTINGS,
        options=TrainingOptions(**given),
    )
    assert skipped(capfd) == [True] * 3


def test_stages_that_the_commands_finished_are_skipped(folder, capfd):
    sets = [f"--set={key}={value}" for key, value in (OVERRIDES | {"max_epoch": 2}).items()] + ["--set=max_epoch=1"]
    shared = ["--config model/tiny --config attention/sdma --train_dir data/train --valid_dir data/dev"]
    shared += ["--tokens_dir exp/a/tokens --task asr", *(f"'{change}'" for change in sets)]
    shared, more = " ".join(shared), "--kernels mkl --verify --init_param exp/a"
    lines = {
        "tokens": "--text data/train/text --output_dir exp/f/tokens",
        "stats": f"{shared} --output_dir exp/f/stats",
        "train": f"{shared} --stats_dir exp/f/stats --output_dir exp/f --ngpu 0 {more}",
        "average": "exp/f --metric valid.acc --number 5",
    }
    Path("plan.tsv").write_text("".join(f"{name}\tespnet-diverse {name} {line}\n" for name, line in lines.items()))
    finish(".")
    assert main(["plan", "plan.tsv"]) == 0
    assert skipped(capfd) == [True] * 4
    Path("exp/f/stats/train/speech_shape").write_text("other")
    assert main(["plan", "plan.tsv", "--dry_run"]) == 0
    assert [line for line in capfd.readouterr().out.splitlines() if "would run" in line] == [
        "[train] would run: exp/f/stats/train/speech_shape changed",
        "[average] would run: its input exp/f/checkpoint.pth will be rewritten",
    ]


@pytest.mark.parametrize(
    "stage",
    [
        Characters(text=[Path("a b"), Path("c")], output_dir=Path("t")),
        Statistics(**SHARED, set=["a=1", "b={c: 2}"], output_dir=Path("s")),
        Training(**SHARED, src_tokens_dir=Path("x"), task="st", stats_dir=Path("s"), output_dir=Path("o"), **MORE),
        Training(**SHARED, stats_dir=Path("s"), output_dir=Path("o"), verify=True, kernels="mkl"),
        Averaging(model_dir=Path("o"), metric="valid.loss", number=2),
        Averaging(model_dir=Path("o")),
    ],
    ids=lambda stage: stage.stage,
)
def test_the_command_that_is_shown_gives_the_stage(stage):
    program, name, *words = stage.command()
    module, parser = command_parser(name)
    args = parser.parse_intermixed_args(words)
    assert program == "espnet-diverse"
    if hasattr(module, "stage"):
        again = module.stage(args)
        assert again.arguments() == stage.arguments() and again.command() == stage.command()
    else:
        assert (args.text, args.output_dir) == (stage.text, stage.output_dir)


def test_an_unknown_metric_of_the_training_before_is_refused():
    settings = ["best_model_criterion=[[valid, acc, max]]"]
    statistics, training, _ = model_stages(Path("exp"), {**SHARED, "set": settings}, {}, 3)
    with pytest.raises(
        ConfigError, match="unknown metric 'valid.cer'; best_model_criterion of this run has: valid.acc"
    ):
        Averaging(model_dir=Path("exp"), metric="valid.cer").check_options([statistics, training])
    Averaging(model_dir=Path("exp"), metric="valid.acc").check_options([statistics, training])
    Averaging(model_dir=Path("other"), metric="valid.cer").check_options([statistics, training])
    with pytest.raises(ConfigError, match="0 epochs cannot be averaged"):
        Averaging(model_dir=Path("exp"), number=0).check_options([statistics, training])


def test_the_sets_of_a_folder(tmp_path):
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match="needs two data directories, train and dev; write them with"):
        sets_of(tmp_path)
    (tmp_path / "valid").mkdir()
    assert sets_of(tmp_path) == {"train_dir": tmp_path / "train", "valid_dir": tmp_path / "valid"}
    with pytest.raises(DataError, match=f"give the folder of all sets, {tmp_path}$"):
        sets_of(tmp_path / "train")
