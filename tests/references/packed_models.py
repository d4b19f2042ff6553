"""A packed model, and the folder to which such models are unpacked; imported by the conftest.py of their tests."""

import pytest

from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Packed models are unpacked to a folder of the test's own."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packed(tiny_run, tmp_path):
    """The tiny run as a packed model."""
    return pack(tiny_run.model_dir, tmp_path / "model.zip", Facts())
