"""The plugin asks for a quick start and the kernels of the command, and silences Dask's logs of a worker."""

import logging

from espnet_diverse.cluster import plugin
from espnet_diverse.nets import linear_kernels


def test_a_worker_imports_espnet_quickly_and_logs_no_closed_connection(monkeypatch):
    asked = []
    monkeypatch.setattr(plugin, "fast_start", lambda: asked.append(True))
    monkeypatch.setattr(linear_kernels, "_taken", taken := {})
    monkeypatch.setattr(logging.getLogger("distributed"), "level", logging.INFO)
    plugin.QuickStart().setup(None)
    assert taken == linear_kernels.choice()
    assert asked and logging.getLogger("distributed").level == logging.CRITICAL
