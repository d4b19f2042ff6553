"""The CPU of the machine, and the folder of the cache."""

from pathlib import Path

import pytest

from espnet_diverse import machine
from espnet_diverse.machine import cache_folder, cpu_kind, cpu_model

AMD = """processor\t: {0}
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763
cpu MHz\t\t: 245{0}.1
flags\t\t: avx avx2
"""


@pytest.fixture(autouse=True)
def nothing_is_kept():
    cpu_model.cache_clear()
    cpu_kind.cache_clear()
    yield
    cpu_model.cache_clear()
    cpu_kind.cache_clear()


def kind_of(tmp_path, monkeypatch, text):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")
    cpu_kind.cache_clear()
    return cpu_kind()


def test_the_kind_is_that_of_the_model_and_not_of_the_machine(tmp_path, monkeypatch):
    two_cores, one_core = "\n".join([AMD.format(0), AMD.format(1)]), AMD.format(2)
    assert kind_of(tmp_path, monkeypatch, two_cores) == kind_of(tmp_path, monkeypatch, one_core)
    assert cpu_model() == "AMD EPYC 7763"
    other = one_core.replace("avx2", "avx2 avx512f")
    assert kind_of(tmp_path, monkeypatch, one_core) != kind_of(tmp_path, monkeypatch, other)


def test_a_system_that_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "none")
    assert cpu_kind() and cpu_model()


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
    assert cache_folder() == expected
