"""The files of a trained model: which weights are taken, and the language model in its directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espnet_diverse.errors import ModelError
from espnet_diverse.runs.model_files import INSIDE, NGRAM, check_exists, find_weights, model_files, weights_name


def write(folder, *names, task="asr"):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    (folder / "config.yaml").write_text(f"task: {task}\n")
    return folder


def test_weights_are_found_by_name_or_path_or_the_known_ones_are_listed(tmp_path):
    write(tmp_path, "1epoch.pth", "2epoch.pth", "valid.acc.ave.pth", "last.ckpt")
    assert find_weights(tmp_path) == tmp_path / "valid.acc.ave.pth"
    assert find_weights(tmp_path, tmp_path / "1epoch.pth") == tmp_path / "1epoch.pth"
    with pytest.raises(ModelError, match=r"9epoch\.pth: no such model file; .* there: 1epoch\.pth 2epoch"):
        find_weights(tmp_path, "9epoch.pth")
    (tmp_path / "valid.acc.ave.pth").rename(tmp_path / "valid.acc.ave.safetensors")
    assert find_weights(tmp_path) == tmp_path / "valid.acc.ave.safetensors"
    with pytest.raises(ModelError, match=r"there: .* last\.ckpt valid\.acc\.ave\.safetensors"):
        find_weights(tmp_path, "9epoch.pth")


@pytest.mark.parametrize("task", ["asr", "st", "mt", "lm", "cls", "s2t", "s2t_ctc"])
def test_the_weights_of_the_task_are_the_default(tmp_path, task):
    write(tmp_path, "valid.acc.ave.pth", "valid.loss.ave.pth", task=task)
    assert find_weights(tmp_path) == tmp_path / (
        "valid.loss.ave.pth" if task in ("lm", "s2t_ctc") else "valid.acc.ave.pth"
    )
    assert find_weights(tmp_path).name == weights_name({"task": task})


CRITERIA = {  # criteria of a run, the averages that it has, and the one that is taken
    "its own": ([["valid", "cer_ctc", "min"]], ["valid.cer_ctc"], "valid.cer_ctc"),
    "the task's among others": (
        [["valid", "loss", "min"], ["valid", "acc", "max"]],
        ["valid.loss", "valid.acc"],
        "valid.acc",
    ),
    "the first": ([["valid", "cer", "min"], ["valid", "loss", "min"]], ["valid.loss", "valid.cer"], "valid.cer"),
    "the first that was measured": (
        [["train", "loss", "min"], ["valid", "loss", "min"], ["train", "acc", "max"], ["valid", "acc", "max"]],
        ["train.loss", "valid.loss"],
        "valid.loss",
    ),
    "of training": ([["train", "loss", "min"]], ["train.loss"], "train.loss"),
    "none that names a file elsewhere": ([["valid", "x/../../evil", "min"]], ["valid.acc"], "valid.acc"),
}


@pytest.mark.parametrize("which", CRITERIA)
def test_a_run_without_the_average_of_its_task_has_another(tmp_path, which):
    criteria, averages, taken = CRITERIA[which]
    write(tmp_path, *(f"{name}.ave.pth" for name in averages))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"task": "asr", "best_model_criterion": criteria}))
    assert find_weights(tmp_path) == tmp_path / f"{taken}.ave.pth"
    assert model_files(tmp_path)[1] == find_weights(tmp_path)
    find_weights(tmp_path).rename(tmp_path / f"{taken}.ave.safetensors")
    assert find_weights(tmp_path) == tmp_path / f"{taken}.ave.safetensors"


AS_PUBLISHED = {  # files of a repository without links, and the one that is taken
    "the only one": (["valid.acc.ave_10best.pth"], "valid.acc.ave_10best.pth"),
    "that of most epochs": (["valid.acc.ave_5best.pth", "valid.acc.ave_10best.pth"], "valid.acc.ave_10best.pth"),
    "the link": (["valid.acc.ave_10best.pth", "valid.acc.ave.pth"], "valid.acc.ave.pth"),
    "by the better metric": (["valid.loss.ave.pth", "valid.acc.ave_10best.pth"], "valid.acc.ave_10best.pth"),
    "of a metric that the run does not name": (["valid.cer_ctc.ave_3best.pth"], "valid.cer_ctc.ave_3best.pth"),
    "safetensors": (["valid.acc.ave_3best.safetensors"], "valid.acc.ave_3best.safetensors"),
    "not safetensors": (["valid.acc.ave_3best.safetensors", "valid.acc.ave_3best.pth"], "valid.acc.ave_3best.pth"),
}


@pytest.mark.parametrize("which", AS_PUBLISHED)
def test_the_average_of_a_repository_is_found(tmp_path, which):
    names, taken = AS_PUBLISHED[which]
    write(tmp_path, "1epoch.pth", *names)
    assert find_weights(tmp_path) == model_files(tmp_path)[1] == tmp_path / taken


def test_several_averages_by_metrics_that_the_run_does_not_name_are_listed(tmp_path):
    write(tmp_path, "valid.cer.ave_3best.pth", "valid.wer.ave_3best.pth", "valid.acc.ave_x.pth")
    with pytest.raises(
        ModelError, match=r"valid\.acc\.ave\.pth: no .* there: valid\.acc\.ave_x\.pth valid\.cer.* valid\.wer"
    ):
        find_weights(tmp_path)


def test_weights_of_the_directory_come_before_a_file_of_the_same_name_elsewhere(tmp_path, monkeypatch):
    run = write(tmp_path / "run", "valid.acc.ave.safetensors")
    (tmp_path / "valid.acc.ave.pth").write_bytes(b"of another model")
    monkeypatch.chdir(tmp_path)
    for name in (None, "valid.acc.ave.pth"):
        assert find_weights(run, name) == run / "valid.acc.ave.safetensors"
    (run / "valid.acc.ave.safetensors").unlink()
    assert find_weights(run, "valid.acc.ave.pth") == Path("valid.acc.ave.pth")
    with pytest.raises(ModelError, match=r"run/valid\.acc\.ave\.pth: no such model file; model files there: none"):
        find_weights(run)


@pytest.mark.parametrize("task", ["asr", "st", "mt", "lm", "cls", "s2t", "s2t_ctc"])
def test_the_files_are_the_configuration_and_the_weights_of_the_task(tmp_path, task):
    name = weights_name({"task": task})
    write(tmp_path, name, task=task)
    assert model_files(tmp_path) == [tmp_path / "config.yaml", tmp_path / name]


def test_the_task_is_told_where_espnet_wrote_none(tmp_path):
    (tmp_path / "config.yaml").write_text("model: espnet_ctc\npromptencoder: transformer\n")
    assert model_files(tmp_path) == [tmp_path / "config.yaml", tmp_path / "valid.loss.ave.pth"]


def test_the_files_of_the_models_own_language_model_are_among_them(tmp_path):
    own = write(write(tmp_path) / INSIDE, NGRAM, task="lm")
    files = [tmp_path / "config.yaml", tmp_path / "valid.acc.ave.pth"]
    assert model_files(tmp_path) == [*files, own / "config.yaml", own / "valid.loss.ave.pth"]
    (own / "config.yaml").unlink()
    assert model_files(tmp_path) == [*files, own / NGRAM]


def test_files_that_are_not_there_yet_have_the_names_that_they_will_have(tmp_path):
    assert model_files(Path("exp")) == [Path("exp/config.yaml"), Path("exp/valid.acc.ave.pth")]
    (tmp_path / "config.yaml").write_text("[")
    assert model_files(tmp_path, "9epoch.pth") == [tmp_path / "config.yaml", tmp_path / "9epoch.pth"]
    assert model_files(tmp_path)[1] == tmp_path / "valid.acc.ave.pth"


def test_nothing_heavy_is_imported():
    code = "import sys, espnet_diverse.runs.model_files; print(sorted({'torch', 'numpy', 'espnet2'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_neither_a_file_nor_a_directory_is_refused_before_it_is_read(kind, tmp_path):
    """A pipe would be waited for, a device would fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero")}[kind]
    with pytest.raises(ModelError, match=f"{path}: is a pipe or a device"):
        check_exists(path)
