"""Receiving bodies: slow ones, those that are too many, and clients that are still sending when they are refused."""

import asyncio
import json
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from demo.test_routes import serving
from starlette.requests import Request

from espnet_diverse.serve import bodies
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.refusals import RefusedError

HEAD = "POST /run HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n"
HEAD += "Content-Length: {}\r\n\r\n"


def send(server, length: int, body: bytes, pause: float = 0.0, chunk: int = 1 << 20) -> tuple[int, dict]:
    """Status and answer of an upload of `body` under a Content-Length; OSError where the connection is reset."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(HEAD.format(length).encode())
        for start in range(0, len(body), chunk):
            connection.sendall(body[start : start + chunk])
            if pause and select.select([connection], [], [], pause)[0]:  # an answer, as browsers notice
                break
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    return int(answer.split()[1]), json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.fixture(scope="module")
def server():
    with serving(Limits(megabytes=2, waiting=3)) as running:
        yield running


def test_refused_uploads_get_their_answer_and_no_reset(server):
    for _ in range(5):
        status, answer = send(server, 8_000_000, bytes(8_000_000))
        assert status == 413 and "the file has 8.0 MB; the limit is 2 MB" in answer["error"]["message"]


def test_many_at_once_are_all_answered(server):
    server.service.may.clear()
    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(send, server, 1_000_000, bytes(1_000_000)) for _ in range(40)]
        time.sleep(1)
        server.service.may.set()
        statuses = [answer.result()[0] for answer in answers]
    assert set(statuses) == {200, 429} and statuses.count(200) >= 3
    assert send(server, 3, b"abc") == (200, {"length": 3, "choices": {}})


def test_slow_uploads_are_ended_and_keep_no_place_from_others(server, monkeypatch):
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 0.5)
    results = []
    slow = [
        threading.Thread(target=lambda: results.append(send(server, 1000, b"x" * 3, pause=0.15, chunk=1)))
        for _ in range(10)
    ]
    for thread in slow:
        thread.start()
    time.sleep(0.2)
    assert send(server, 3, b"abc")[0] == 200
    for thread in slow:
        thread.join(10)
    assert [status for status, _ in results] == [408] * 10 and "the upload is too slow" in results[0][1]["error"][
        "message"
    ]


def request(*chunks, length=None):
    """A request whose body comes in these chunks."""
    body = b"".join(chunks)
    length = len(body) if length is None else length
    left = list(chunks)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return Request({"type": "http", "headers": [(b"content-length", str(length).encode())]}, receive)


def test_all_bodies_together_are_bounded_and_what_is_held_is_given_back():
    async def check():
        held = bodies.Bodies(Limits(megabytes=1e-4, all_megabytes=1e-4))  # 100 bytes
        async with held.body(request(bytes(50), bytes(30))) as body:
            assert len(body) == 80
            with pytest.raises(RefusedError, match="too many uploads are on their way; try again later"):
                async with held.body(request(bytes(20), bytes(20))):
                    pytest.fail("received")
        async with held.body(request(bytes(100))) as body:
            assert len(body) == 100

    asyncio.run(check())
