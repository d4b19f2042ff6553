from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from espnet_diverse.packing.model_card import Facts
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


@pytest.fixture
def killed(monkeypatch):
    """Contexts that must end where a function is called, as after a kill: `killed(module, name)`."""

    @contextmanager
    def within(module, name):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, Mock(side_effect=KeyboardInterrupt))
            yield

    return within
