import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch) -> Iterator[None]:
    """The benchmarks can be imported by their names; folders and modules of tests have some of these names, too."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    for script in folder.glob("*.py"):
        if getattr(sys.modules.get(script.stem), "__file__", None) != str(script):
            monkeypatch.delitem(sys.modules, script.stem, raising=False)
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)  # streaming.py raises it for its whole process


@pytest.fixture
def tiny_step(monkeypatch) -> str:
    """The name of a size of training step that is small enough for tests."""
    import training_step

    monkeypatch.setattr(training_step, "CHARACTERS", 60)
    return "1x1/32/64"
