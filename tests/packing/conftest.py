import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Packed models are unpacked to a folder of the test's own."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
