"""Receiving bodies: slow uploads, too many uploads, and clients that are still sending when they are refused."""

import asyncio
import io
import json
import select
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile
from demo.test_routes import serving
from references.tones import RATE, tones
from serve.test_transcriptions import wav
from starlette.requests import Request

from espnet_diverse.errors import DataError
from espnet_diverse.serve import bodies
from espnet_diverse.serve.bodies import samples_of
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


def test_uploads_that_stall_before_their_end_are_ended(server, monkeypatch):
    """However fast they began: each sends all but its last byte at once, and then a byte now and then."""
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(HEAD.format(2_000_000).encode() + bytes(1_900_000))
        while not select.select([connection], [], [], 0.1)[0]:
            connection.sendall(b"x")
        assert connection.recv(1 << 16).split()[1] == b"408"
    assert time.monotonic() - began < 10  # by the average of the rate it would be 95 s


def test_small_uploads_have_room_while_large_ones_wait():
    async def check():
        held = bodies.Bodies(Limits(megabytes=0.1, all_megabytes=0.2))
        async with held.body(request(bytes(100_000))), held.body(request(bytes(100_000))):
            with pytest.raises(RefusedError, match="too many"):
                async with held.body(request(bytes(6_000))):
                    pytest.fail("received")
            async with held.body(request(bytes(5_000))) as body:
                assert len(body) == 5_000

    asyncio.run(check())


def request(*chunks, kind="application/octet-stream"):
    """A request whose body comes in these chunks."""
    length = len(b"".join(chunks))
    left = list(chunks)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    headers = [(b"content-length", b"%d" % length), (b"content-type", kind.encode())]
    return Request({"type": "http", "headers": headers}, receive)


def test_the_total_size_of_bodies_is_bounded_and_released():
    async def check():
        held = bodies.Bodies(Limits(megabytes=0.1, all_megabytes=0.2))
        async with held.body(request(bytes(60_000), bytes(40_000))) as body, held.body(request(bytes(80_000))):
            assert len(body) == 100_000
            with pytest.raises(RefusedError, match="too many uploads are on their way; try again later"):
                async with held.body(request(bytes(15_000), bytes(15_000))):
                    pytest.fail("received")
        async with held.body(request(bytes(100_000))) as body:
            assert len(body) == 100_000

    asyncio.run(check())


def test_a_file_of_the_greatest_size_fits_into_a_form():
    async def check():
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        form = request(head, bytes(100_000), b"\r\n--x--\r\n", kind="multipart/form-data; boundary=x")
        async with bodies.Bodies(Limits(megabytes=0.1, all_megabytes=0.1)).upload(form) as upload:
            assert len(upload.content) == 100_000

    asyncio.run(check())


def test_samples_come_at_the_rate_of_the_model():
    body = wav(1.0, 3).getvalue()
    samples = samples_of(body, "a.wav", 2.0, RATE)
    assert samples.dtype == np.float32 and samples == pytest.approx(tones(1.0, 3), abs=1e-4)
    assert len(samples_of(body, "a.wav", 2.0, 8000)) == 8000


def test_recordings_that_are_refused_are_named_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(DataError, match=r"^a.wav lasts 1.0 seconds; the limit is 0.5 seconds; cut it, or start the"):
        samples_of(wav(1.0).getvalue(), "a.wav", 0.5, RATE)
    with pytest.raises(DataError, match=r"^/etc/passwd: "):
        samples_of(b"no audio", "/etc/passwd", 0.5, RATE)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_of_no_sample_at_the_rate_of_the_model_is_refused():
    body = io.BytesIO()
    soundfile.write(body, np.full(1, 0.1), 48_000, format="WAV")
    with pytest.raises(DataError, match=r"^a.wav: has 0 samples at 16000 Hz; give a recording with at least 1$"):
        samples_of(body.getvalue(), "a.wav", 2.0, RATE)
