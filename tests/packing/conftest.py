from contextlib import contextmanager
from unittest.mock import Mock

import pytest
from references.packed_models import cache, packed

__all__ = ["cache", "killed", "packed"]


@pytest.fixture
def killed(monkeypatch):
    """Contexts that must end where a function is called, as after a kill: `killed(module, name)`."""

    @contextmanager
    def within(module, name):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, Mock(side_effect=KeyboardInterrupt))
            yield

    return within
