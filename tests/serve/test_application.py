import http.client
import json
import logging
import socket
import threading
import time

import pytest
from demo.test_routes import ask, serving
from serve.running import counted, wait_for

from espnet_diverse.demo.routes import BODY
from espnet_diverse.errors import ConfigError
from espnet_diverse.serve import application
from espnet_diverse.serve.application import Server
from espnet_diverse.serve.limits import Limits


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_waits_for_answers_but_not_for_ever(monkeypatch, ends):
    monkeypatch.setattr(application, "_LAST_ANSWERS", 20 if ends else 1)
    answers = []
    with serving(Limits()) as server:
        service = server.service
        service.may.clear()

        def wait():
            try:
                answers.append(ask(server, "POST", "/run", b"x")[0])
            except OSError as error:
                answers.append(type(error))

        asking = threading.Thread(target=wait)
        asking.start()
        assert service.begun.acquire(timeout=20)
        began = time.monotonic()
        if ends:
            threading.Timer(0.5, service.may.set).start()
        server.stop()
        asking.join(10)
        assert not asking.is_alive() and time.monotonic() - began < 5
    assert (answers == [200]) == ends


def test_freed_memory_is_returned_again_and_again(monkeypatch):
    returned = threading.Semaphore(0)
    monkeypatch.setattr(application, "_TICKS", 2)
    monkeypatch.setattr(application, "return_freed_memory", returned.release)
    with serving(Limits()) as server:
        assert all(returned.acquire(timeout=20) for _ in range(3))
        assert ask(server, "GET", "/about")[0] == 200


def test_draining_lets_running_requests_end_and_refuses_new_ones():
    answers = []
    with serving(Limits(), drain_seconds=20.0) as server:
        server.service.may.clear()
        asking = threading.Thread(target=lambda: answers.append(ask(server, "POST", "/run", b"x")[0]))
        asking.start()
        assert server.service.begun.acquire(timeout=20)
        before = counted('refused_total{reason="draining"}')
        server.drain()
        status, headers, body = ask(server, "GET", "/about")
        assert (status, headers["Retry-After"], body["error"]["code"]) == (503, "5", "service_unavailable")
        assert not answers and counted('refused_total{reason="draining"}') == before + 1
        server.service.may.set()
        asking.join(20)
        assert answers == [200]
        wait_for(lambda: not is_open(server))


def test_draining_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(application, "_LAST_ANSWERS", 0)
    answers = []
    with serving(Limits(), drain_seconds=0.5) as server:
        server.service.may.clear()
        asking = threading.Thread(target=lambda: answers.append(ask(server, "POST", "/run", b"x")[::2]))
        asking.start()
        assert server.service.begun.acquire(timeout=20)
        began = time.monotonic()
        server.drain()
        asking.join(20)
        assert 0.4 < time.monotonic() - began < 10
        ((status, body),) = answers
        assert status == 503 and body["error"]["message"].startswith("the server ends before the answer")
        wait_for(lambda: not is_open(server))


def is_open(server):
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_what_is_no_http_is_counted():
    with serving(Limits()) as server:
        before = counted('refused_total{reason="invalid_http"}')
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b"\x16\x03\x01 no request\r\n\r\n")
            assert b" 400 " in connection.recv(1000)
        assert counted('refused_total{reason="invalid_http"}') == before + 1


def test_ports_that_cannot_be_had():
    with Server(0) as server:
        used = rf"--port {server.port}: Address already in use; give another one, or 0 for any"
        with pytest.raises(ConfigError, match=used):
            Server(server.port)
    with pytest.raises(ConfigError, match=r"--port 99999: a port is a number from 0 to 65535; give another one"):
        Server(99999)


def test_an_address_that_others_reach_needs_a_key():
    said = "--host 0.0.0.0: other machines would reach .* variable ESPNET_DIVERSE_API_KEY, or leave --host out"
    with pytest.raises(ConfigError, match=said):
        Server(0, "0.0.0.0")
    with Server(0, "0.0.0.0", "secret") as server:
        assert server.url == f"http://0.0.0.0:{server.port}/"
    with pytest.raises(ConfigError, match=r"--host 192.0.2.1 --port 0: Cannot assign requested address; give another"):
        Server(0, "192.0.2.1", "secret")


def test_a_connection_that_sends_nothing_is_closed(monkeypatch, caplog):
    monkeypatch.setattr(application, "_SILENT_SECONDS", 0.2)
    with serving(Limits()) as server, caplog.at_level(logging.WARNING):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            assert connection.recv(1) == b""
        assert ask(server, "GET", "/about")[0] == 200
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_connection_that_sends_no_second_request_is_closed(monkeypatch):
    monkeypatch.setattr(application, "_SILENT_SECONDS", 2.0)
    with serving(Limits()) as server:
        request = f"GET /about HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            for _ in range(2):
                connection.sendall(request)
                while not (part := connection.recv(10_000)).endswith(b"}"):
                    assert part
            connection.sendall(request[:1])
            assert connection.recv(1) == b""


def test_a_request_on_an_open_connection_may_take_longer_than_silence(monkeypatch):
    monkeypatch.setattr(application, "_SILENT_SECONDS", 1.0)
    with serving(Limits()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        for seconds in (0.0, 2.0):
            server.service.may.clear()
            threading.Timer(seconds, server.service.may.set).start()
            connection.request("POST", "/run", b"x", {"Content-Type": BODY})
            assert json.load(connection.getresponse())["length"] == 1
        connection.close()
