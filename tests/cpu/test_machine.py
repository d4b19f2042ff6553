"""The CPU of the machine, and the folder of the cache."""

from pathlib import Path

import pytest

from espnet_diverse import portable
from espnet_diverse.cpu import machine


def test_the_kind_of_a_cpu_is_its_model_and_flags(tmp_path, monkeypatch):
    def kind(text):
        (tmp_path / "cpuinfo").write_text(text)
        machine.cpu_kind.cache_clear()
        return machine.cpu_kind()

    monkeypatch.setattr(portable, "PROC", tmp_path)
    core = "processor\t: {0}\nmodel name\t: AMD EPYC 7763\ncpu MHz\t\t: 245{0}.1\nflags\t\t: avx avx2\n"
    two, one = f"{core.format(0)}\n{core.format(1)}", core.format(2)
    assert kind(two) == kind(one) != kind(one.replace("avx2", "avx2 avx512f"))
    assert kind("")
    machine.cpu_kind.cache_clear()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ESPNET_DIVERSE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/espnet_diverse")),
        ({}, Path.home() / ".cache/espnet_diverse"),
    ],
)
def test_the_folder_of_the_cache(environment, expected, monkeypatch):
    for name in ("ESPNET_DIVERSE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.cache_folder() == expected


@pytest.mark.parametrize("name", ["ESPNET_DIVERSE_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_that_is_given_needs_no_home(name, tmp_path, monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.delenv("ESPNET_DIVERSE_CACHE", raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    assert machine.cache_folder() in (tmp_path, tmp_path / "espnet_diverse")
