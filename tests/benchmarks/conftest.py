import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch) -> None:
    """The benchmarks can be imported by their names; the folder of tests is not one of them."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    monkeypatch.delitem(sys.modules, "streaming", raising=False)


@pytest.fixture
def tiny_step(monkeypatch) -> str:
    """The name of a size of training step that is small enough for tests."""
    import training_step

    monkeypatch.setattr(training_step, "CHARACTERS", 60)
    return "1x1/32/64"
