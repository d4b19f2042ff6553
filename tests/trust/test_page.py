"""Many uploads at once, slow ones, oversized ones and bombs: the page answers each, and the next person at once."""

import resource
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from demo.test_routes import serving
from references.converted_audio import encoded, run_ffmpeg
from serve.test_bodies import send

from espnet_diverse.audio.media import media_format
from espnet_diverse.audio.reading import open_file
from espnet_diverse.errors import DataError
from espnet_diverse.serve import bodies
from espnet_diverse.serve.bodies import samples_of
from espnet_diverse.serve.limits import Limits

pytestmark = pytest.mark.trust
SIZE = 3_000_000


@pytest.fixture
def server():
    with serving(Limits(megabytes=4)) as running:
        running.service.asked = deque(maxlen=1)  # the stand-in would keep all bodies
        yield running


def memory() -> int:
    """The greatest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def is_served(server) -> None:
    began = time.monotonic()
    assert send(server, 3, b"abc") == (200, {"length": 3, "choices": {}})
    assert time.monotonic() - began < 2


def test_two_hundred_at_once(server, capsys):
    body, before = bytes(SIZE), memory()
    with ThreadPoolExecutor(200) as pool:
        statuses = Counter(status for status, _ in pool.map(lambda _: send(server, SIZE, body), range(200)))
    assert set(statuses) <= {200, 429} and statuses[200] >= 8 and sum(statuses.values()) == 200
    assert memory() - before < 300e6
    is_served(server)
    with capsys.disabled():
        print(f"\n200 uploads at once: {dict(statuses)}, memory grew by {(memory() - before) / 1e6:.0f} MB")


def test_fifty_slow_and_twenty_oversized(server, capsys, monkeypatch):
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 2.0)
    with ThreadPoolExecutor(70) as pool:
        slow = [pool.submit(send, server, SIZE, b"x" * 20, 0.5, 1) for _ in range(50)]
        large = [pool.submit(send, server, 20_000_000, bytes(20_000_000)) for _ in range(20)]
        time.sleep(1)
        is_served(server)
        statuses = [Counter(one.result()[0] for one in some) for some in (slow, large)]
    assert statuses == [{408: 50}, {413: 20}]
    is_served(server)
    with capsys.disabled():
        print("\n50 slow uploads: 50 answers 408; 20 oversized ones: 20 answers 413; no connection was reset")


@pytest.mark.usefixtures("ffmpeg")
def test_twenty_bombs(tmp_path, capsys):
    """A small file of two hours, as webm, m4a and joined mp3: what is written is bounded by the page's limit."""
    run_ffmpeg("-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "60", "-b:a", "8k", tmp_path / "minute.webm")
    run_ffmpeg("-i", tmp_path / "minute.webm", "-b:a", "8k", tmp_path / "minute.m4a")
    for kind in ("webm", "m4a"):
        run_ffmpeg("-stream_loop", "119", "-i", tmp_path / f"minute.{kind}", "-c", "copy", tmp_path / f"a.{kind}")
    (tmp_path / "a.mp3").write_bytes(500 * encoded(2.0))
    bombs = [(tmp_path / f"a.{kind}").read_bytes() for kind in ("webm", "m4a", "mp3")]
    largest, longest = 0, 0.0
    for number in range(20):
        body = bombs[number % 3]
        began = time.monotonic()
        with pytest.raises(DataError, match="a.x lasts .* seconds; the limit is 120 seconds"):
            samples_of(body, "a.x", 120.0, 16_000)
        longest = max(longest, time.monotonic() - began)
        (tmp_path / "a.x").write_bytes(body)
        assert media_format(tmp_path / "a.x") or number % 3 == 2
        with open_file(tmp_path / "a.x", at_most=121.0) as file:
            largest = max(largest, file.path.stat().st_size)
    assert largest < 20e6 and longest < 20
    with capsys.disabled():
        print(f"\n20 bombs of up to two hours: refused in {longest:.1f} s, at most {largest / 1e6:.0f} MB each")
