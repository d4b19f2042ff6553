"""The plugin asks for a quick start and silences Dask's logs of a worker."""

import logging

from espnet_diverse.cluster import plugin


def test_a_worker_imports_espnet_quickly_and_logs_no_closed_connection(monkeypatch):
    asked = []
    monkeypatch.setattr(plugin, "fast_start", lambda: asked.append(True))
    monkeypatch.setattr(logging.getLogger("distributed"), "level", logging.INFO)
    plugin.QuickStart().setup(None)
    assert asked and logging.getLogger("distributed").level == logging.CRITICAL
