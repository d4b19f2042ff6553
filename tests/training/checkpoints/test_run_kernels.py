"""A run continues with the library of matrix products that it began with, or says so."""

import json
import logging
import shutil

import pytest
import torch
from references.train_command import train

from espnet_diverse.cpu import linear_kernels
from espnet_diverse.cpu.machine import KERNELS_VARIABLE
from espnet_diverse.functional.linear import AVAILABLE
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.checkpoints import run_kernels
from espnet_diverse.training.loop import cpu_layers

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this PyTorch has no oneDNN")
PLACES = ["training small", "training large", "search small", "search large"]


@pytest.fixture
def measured(monkeypatch):
    """A function that makes one library the faster one, as another cache or machine would."""
    monkeypatch.setenv(KERNELS_VARIABLE, "auto")

    def faster(library):
        monkeypatch.setattr(linear_kernels, "chosen", lambda file: dict.fromkeys(PLACES, library))

    return faster


@pytest.fixture(scope="module")
def straight(tiny_run, tmp_path_factory):
    """Runs of one and of two epochs with oneDNN."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNELS_VARIABLE, "onednn")
        for epochs in (1, 2):
            assert train(tiny_run, folder / str(epochs), f"max_epoch={epochs}") == 0
    return folder


def go_on(tiny_run, folder, *allow):
    return train(tiny_run, folder, "max_epoch=2", allow=["max_epoch", *allow])


def kernels(folder):
    return set(json.loads((folder / run_kernels.FILE).read_text()).values())


def same_weights(one, two):
    a, b = (checkpoint.load(folder / "2epoch.pth") for folder in (one, two))
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_continues_with_the_library_that_it_began_with(straight, tiny_run, tmp_path, measured):
    """Bit for bit, although the other one is the faster one now."""
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    measured("mkl")
    assert go_on(tiny_run, copy) == 0
    assert same_weights(copy, straight / "2") and kernels(copy) == {"onednn"}
    assert linear_kernels.choice() == dict.fromkeys(PLACES, "mkl") and not linear_kernels._taken


def test_another_library_is_refused_by_name_unless_it_is_allowed(straight, tiny_run, tmp_path, monkeypatch, capfd):
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    before = {path: path.stat().st_mtime_ns for path in copy.iterdir()}
    monkeypatch.setenv(KERNELS_VARIABLE, "mkl")
    assert go_on(tiny_run, copy) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert f"{copy}: was trained with other kernels than mkl; give another --output_dir" in error
    assert ", or --allow_changed kernels to continue with these" in error
    assert {path: path.stat().st_mtime_ns for path in copy.iterdir()} == before
    monkeypatch.setattr(cpu_layers, "linear", None)  # that of oneDNN; on some CPUs the weights would be the same
    assert go_on(tiny_run, copy, "kernels") == 0
    assert kernels(copy) == {"mkl"}


def test_a_library_that_was_the_faster_one_may_be_asked_for(straight, tiny_run, tmp_path, monkeypatch):
    """That of decoding, which the run does not use, may be another one."""
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    found = dict.fromkeys(PLACES, "onednn") | {"search small": "mkl"}
    (copy / run_kernels.FILE).write_text(json.dumps(found))
    monkeypatch.setenv(KERNELS_VARIABLE, "onednn")
    assert go_on(tiny_run, copy) == 0


def test_a_run_of_an_earlier_version_continues_with_the_choice_of_now(straight, tiny_run, tmp_path, measured):
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    (copy / run_kernels.FILE).unlink()
    measured("onednn")
    assert go_on(tiny_run, copy) == 0
    assert kernels(copy) == {"onednn"} and same_weights(copy, straight / "2")


def test_a_library_that_this_machine_lacks_is_told(straight, tiny_run, tmp_path, monkeypatch, caplog):
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    monkeypatch.setenv(KERNELS_VARIABLE, "auto")
    monkeypatch.setattr(linear_kernels, "AVAILABLE", False)
    with caplog.at_level(logging.WARNING):
        assert go_on(tiny_run, copy) == 0
    (said,) = [record.getMessage() for record in caplog.records if "onednn" in record.getMessage()]
    assert said.startswith(f"{copy}: its kernels are onednn, which this PyTorch lacks") and "\n" not in said
    assert kernels(copy) == {"onednn"}  # with which it continues where there is one


def test_a_damaged_file_is_named(straight, tiny_run, tmp_path, capfd):
    copy = shutil.copytree(straight / "1", tmp_path / "exp")
    for damaged in ("{", '{"training small": "abacus"}', "[]"):
        (copy / run_kernels.FILE).write_text(damaged)
        assert go_on(tiny_run, copy) == 1
        assert f"{copy / run_kernels.FILE}: is damaged" in capfd.readouterr().err.splitlines()[-1]


def test_all_processes_take_the_library_of_the_run(tmp_path, measured):
    measured("mkl")
    (tmp_path / run_kernels.FILE).write_text(json.dumps(dict.fromkeys(PLACES, "onednn")))
    with run_kernels.taken_of(tmp_path):
        assert linear_kernels.library(torch.zeros(2, 2), "training") == "onednn"
    assert linear_kernels.library(torch.zeros(2, 2), "training") == "mkl"
    with run_kernels.taken_of(tmp_path / "of a GPU"):
        assert linear_kernels.library(torch.zeros(2, 2), "training") == "mkl"
