"""Connections that live on when another one of the same thread fails."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import distributed
import pytest
from distributed import LocalCluster, Security

from espnet_diverse.cluster import backends
from espnet_diverse.cluster.configuration import DaskOptions, LocalOptions
from espnet_diverse.cluster.connections import SeparateSocket, dask_setup, separated_connections

KEYS = Security.temporary()
CLIENT = KEYS.get_connection_args("client")["ssl_context"]
SERVER = KEYS.get_listen_args("scheduler")["ssl_context"]


def connected():
    """Both sides of an encrypted connection; the first does not wait for something to read."""
    near, far = socket.socketpair()
    with ThreadPoolExecutor() as threads:
        accepted = threads.submit(SERVER.wrap_socket, far, server_side=True)
        near = CLIENT.wrap_socket(near)
    far = accepted.result()
    far.send(b"ready")
    assert near.recv(5) == b"ready"
    near.setblocking(False)
    return near, far


def send():
    near, far = connected()
    far.close()
    with near:
        near.send(b"to nobody")


def receive():
    near, far = connected()
    far.close()
    with near:
        near.recv(1)


def greet():
    near, far = socket.socketpair()
    far.close()
    with SERVER.wrap_socket(near, server_side=True, do_handshake_on_connect=False) as near:
        near.do_handshake()


@pytest.mark.parametrize("fail", [send, receive, greet])
def test_a_connection_outlives_the_failure_of_another_one(fail):
    with separated_connections():
        near, far = connected()
        with near, far:
            with suppress(OSError):  # some versions of Python take it for the end of the connection
                fail()
            with pytest.raises(ssl.SSLWantReadError):  # nothing to read, which is no error
                near.recv(5)
            far.send(b"alive")
            assert near.recv(5) == b"alive"


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(ssl.SSLContext, "sslsocket_class", ssl.SSLSocket)


@pytest.mark.usefixtures("plain")
def test_connections_are_separate_as_long_as_a_cluster_is_open():
    with backends.started(LocalOptions(kind="local", workers=1)):
        assert ssl.SSLContext.sslsocket_class is SeparateSocket
    assert ssl.SSLContext.sslsocket_class is ssl.SSLSocket


@pytest.mark.usefixtures("plain")
def test_the_scheduler_of_ssh_separates_its_connections(tmp_path, monkeypatch):
    def other_machine(**options):
        return LocalCluster(n_workers=0, protocol="tls://", dashboard_address="127.0.0.1:0", **options)

    monkeypatch.setattr(distributed, "SSHCluster", other_machine)
    with backends.started(DaskOptions(kind="SSHCluster", keys_dir=str(tmp_path / "keys"))) as client:
        (preload,) = client.cluster.scheduler.preloads
        assert preload.module.dask_setup is dask_setup
    dask_setup(None)
    assert ssl.SSLContext.sslsocket_class is SeparateSocket
