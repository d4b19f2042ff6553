"""The library of linear maps: measured once for a CPU, the same for all processes, or chosen by the user."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from espnet_diverse.cpu import linear_kernels
from espnet_diverse.cpu.linear_kernels import chosen, library
from espnet_diverse.cpu.machine import KERNELS_VARIABLE
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.linear import AVAILABLE

PLACES = ["training small", "training large", "search small", "search large"]
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this PyTorch has no oneDNN")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, and measurements that find MKL faster for small layers in training alone."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(KERNELS_VARIABLE, "auto")
    measured = []

    def fastest(place, size):
        measured.append(f"{place} {size}")
        return "mkl" if (place, size) == ("training", "small") else "onednn"

    monkeypatch.setattr(linear_kernels, "_fastest", fastest)
    monkeypatch.setattr(linear_kernels, "_taken", {})
    chosen.cache_clear()
    yield measured
    chosen.cache_clear()


def test_kernels_are_measured_once_for_all_processes(cache):
    weights = torch.zeros(128, 128), torch.zeros(512, 256)
    found = [library(weight, place) for place in ("training", "search") for weight in weights]
    assert found == ["mkl", "onednn", "onednn", "onednn"] and cache == PLACES
    chosen.cache_clear()  # as another process
    assert library(weights[0], "training") == "mkl" and cache == PLACES
    file = linear_kernels._cache_file()
    assert json.loads(file.read_text()) == dict.fromkeys(PLACES, "onednn") | {"training small": "mkl"}
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_damaged_file_is_measured_again(cache):
    file = linear_kernels._cache_file()
    file.parent.mkdir()
    file.write_text('{"training small": "abacus"}')
    assert chosen(file)["training small"] == "mkl" and cache == PLACES
    chosen.cache_clear()
    assert chosen(file)["training small"] == "mkl"
    chosen.cache_clear()
    assert chosen(file) and cache == 2 * PLACES


def test_processes_that_measure_at_once_agree(cache, monkeypatch, tmp_path):
    """Each finds something else; the first that writes wins."""
    turns, together = iter(["mkl"] * 4 + ["onednn"] * 28), Barrier(8)

    def fastest(place, size):
        together.wait(20)
        return next(turns)

    monkeypatch.setattr(linear_kernels, "_fastest", fastest)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: chosen.__wrapped__(tmp_path / "kernels.json"), range(8)))
    assert all(one == json.loads((tmp_path / "kernels.json").read_text()) for one in found)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, cache):
    (tmp_path / "file").touch()
    assert chosen(tmp_path / "file" / "kernels.json")["search small"] == "onednn" and cache == PLACES


@pytest.mark.parametrize("asked", ["onednn", "mkl"])
def test_the_user_may_choose(asked, monkeypatch, cache):
    monkeypatch.setenv(KERNELS_VARIABLE, asked)
    assert library(torch.zeros(2, 2), "search") == asked and not cache
    monkeypatch.setenv(KERNELS_VARIABLE, "blas")
    with pytest.raises(ConfigError, match="ESPNET_DIVERSE_KERNELS=blas is not allowed; give one of auto onednn mkl"):
        library(torch.zeros(2, 2), "search")


def test_workers_take_the_choice_of_their_command(monkeypatch, cache):
    theirs = dict.fromkeys(PLACES, "mkl") | {"search small": "columns"}
    assert linear_kernels.load_with(theirs, lambda: "model") == "model"
    found = [library(torch.zeros(*shape), "search") for shape in ((2, 2), (512, 256))]
    assert found == ["columns", "mkl"] and not cache


@pytest.mark.parametrize("place", ["training", "search"])
def test_a_real_measurement_may_come_in_the_middle_of_a_search(place, monkeypatch):
    monkeypatch.undo()
    with torch.inference_mode():
        assert linear_kernels._fastest(place, "small") in linear_kernels._LIBRARIES[place]


@pytest.mark.parametrize("place", ["training", "search"])
def test_a_real_measurement_leaves_the_generator_alone(place, monkeypatch):
    monkeypatch.undo()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert linear_kernels._fastest(place, "small") in linear_kernels._LIBRARIES[place]
    assert torch.equal(torch.rand(3), expected)


def test_a_file_written_by_another_process_takes_precedence(cache, monkeypatch, tmp_path):
    file, theirs = tmp_path / "kernels.json", dict.fromkeys(PLACES, "mkl")

    def slow(place, size):
        file.write_text(json.dumps(theirs))
        return "onednn"

    monkeypatch.setattr(linear_kernels, "_fastest", slow)
    assert chosen(file) == theirs == json.loads(file.read_text())
