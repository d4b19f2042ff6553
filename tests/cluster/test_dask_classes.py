"""A quick start of workers, whose logs are silenced, and workers in place of lost ones."""

import logging
import os
import ssl
from functools import partial

import pytest
from references.cluster_work import double, load

from espnet_diverse.cluster import backends, dask_classes
from espnet_diverse.cluster.configuration import LocalOptions
from espnet_diverse.cluster.connections import SeparateSocket
from espnet_diverse.cluster.pool import Pool
from espnet_diverse.cluster.worker import Setup


def test_a_worker_imports_espnet_quickly_separates_connections_and_logs_no_closed_one(monkeypatch):
    asked = []
    monkeypatch.setattr(ssl.SSLContext, "sslsocket_class", ssl.SSLSocket)
    monkeypatch.setattr(dask_classes, "fast_start", lambda: asked.append(True))
    monkeypatch.setattr(logging.getLogger("distributed"), "level", logging.INFO)
    dask_classes.QuickStart().setup(None)
    assert asked and ssl.SSLContext.sslsocket_class is SeparateSocket
    assert logging.getLogger("distributed").level == logging.CRITICAL


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_workers_that_dask_has_given_up_are_started_again(tmp_path, count):
    options = LocalOptions(kind="local", workers=2, wait=120)
    with backends.started(options) as client:
        before = client.run(os.getpid)
        for nanny in list(client.cluster.workers.values())[:count]:
            client.sync(nanny.close)
        pool = Pool(client, options, Setup(partial(load, tmp_path)))
        assert list(pool.map_pieces(double, [[number] for number in range(20)])) == [[2 * n] for n in range(20)]
        client.wait_for_workers(2, timeout=120)
        assert len(set(client.run(os.getpid).values()) - set(before.values())) == count
