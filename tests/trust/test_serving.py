"""Proof that a server answers many callers as it answers one, through restarts, and holds no more in the end.

`make trust` has 32 callers for an hour; ESPNET_DIVERSE_SERVING_SECONDS sets another time.
"""

import itertools
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import httpx
import numpy as np
import pytest
from references.converted_audio import run_ffmpeg
from references.held import children, held
from references.serve_callers import AWAY, GONE, STARVED, Call, Load
from references.streaming import tones as letters
from serve.test_transcriptions import wav

from espnet_diverse.audio import media

SECONDS = float(os.environ.get("ESPNET_DIVERSE_SERVING_SECONDS", "3600"))
OPTIONS = ["--vad", "energy", "--max_megabytes", "2", "--max_waiting", "16", "--max_request_seconds", "15"]
LATE = 20.0  # seconds of an upload, beyond the last option
SILENCE = np.zeros(12_000, np.float32)
KINDS = ("answer", "events", "live", "slow", "gone", "wrong", "late")


class Process:
    """The command `serve` in a process, again and again on one port.

    Attributes:
        refused: Numbers of refusals by reason, as `/metrics` had them.
    """

    def __init__(self, models, folder):
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        named = [word for name, path in models.items() for word in ("--model", f"{name}={path}")]
        self._command = [sys.executable, "-m", "espnet_diverse", "serve", *named, "--port", str(self.port), *OPTIONS]
        self._folder, self.log = folder, folder / "log"
        self.refused = Counter()
        self.start()

    def start(self):
        """Start it, and wait until it serves."""
        with self.log.open("ab") as log:
            streams = {"stdout": subprocess.DEVNULL, "stderr": log}
            self.process = subprocess.Popen(self._command, cwd=self._folder, **streams)
        while self.process.poll() is None:
            with suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{self.port}/health").status_code == 200:
                    return
            time.sleep(0.1)
        pytest.fail(self.log.read_text())

    def end(self):
        """Send SIGTERM, and wait until it has let its requests end; until then its metrics are read."""
        text = self._metrics()
        self.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        with suppress(httpx.TransportError):
            while self.process.poll() is None and time.monotonic() < began + 120:
                text = self._metrics()
        assert self.process.wait(10) == -signal.SIGTERM, self.log.read_text()[-3000:]
        for reason, count in re.findall(r'^espnet_diverse_refused_total\{reason="(.*)"\} (.*)$', text, re.MULTILINE):
            self.refused[reason] += round(float(count))

    def _metrics(self):
        return httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=120).text


@pytest.fixture
def server(tiny_run, streaming_run, tmp_path):
    process = Process({"tones": tiny_run.model_dir, "letters": streaming_run}, tmp_path)
    yield process
    process.process.kill()
    process.process.wait()


def calls(folder):
    """Recordings of several lengths for both models, as different texts, some with times of words or hotwords."""
    kinds = [{"response_format": "json"}, {"response_format": "srt"}, {"response_format": "text"}]
    kinds += [{"response_format": "verbose_json", "timestamp_granularities[]": "word"}, {"prompt": "dddd"}]
    lengths = itertools.cycle((0.5, 1.0, 1.75, 3.0, 8.0))
    tones = [
        Call({"model": "tones", **fields}, wav(next(lengths), seed).getvalue()) for seed, fields in enumerate(kinds * 2)
    ]
    if media._program() is not None:  # which is a process beside the server
        (folder / "talk.wav").write_bytes(wav(1.5).getvalue())
        run_ffmpeg("-i", folder / "talk.wav", folder / "talk.m4a")
        tones.append(Call({"model": "tones"}, (folder / "talk.m4a").read_bytes()))
    return [*tones, *(Call({"model": "letters"}, wav(seconds, 9).getvalue()) for seconds in (1.0, 2.5))]


@pytest.mark.parametrize(
    ("callers", "seconds", "restarts", "growth"),
    [
        pytest.param(8, 20, 1, 150, id="short"),
        pytest.param(32, SECONDS, 5, 30, id="full", marks=pytest.mark.trust),
    ],
)
@pytest.mark.timeout(7200)
def test_many_callers(callers, seconds, restarts, growth, server, tmp_path, capsys):
    spoken = np.concatenate([SILENCE, letters(1.0, 1), SILENCE, letters(0.8, 2), SILENCE])
    live = ("letters", (spoken * 2**15).astype("<i2"))
    load = Load(server.port, calls(tmp_path), live, (Call({"model": "tones"}, wav(20.0).getvalue()), LATE))
    assert len({str(found) for found in load.expected}) > 6 and load.expected_live
    seen = []

    def wait(end):
        while time.monotonic() < end and not load.failures:
            time.sleep(1)
            seen.append(held(server.process.pid))

    def work():
        began = time.monotonic()
        for restart in range(restarts):
            wait(max(time.monotonic() + 2, began + seconds * (restart + 1) / restarts / 3))
            load.leave()
            server.end()
            server.start()
            load.come_back()
        seen.clear()
        wait(max(time.monotonic() + 10, began + seconds))

    load.run(callers, work)
    assert not load.failures, load.failures[:5]
    check_all_kinds(load, restarts)
    warm = seen[len(seen) // 3 :]  # until then threads fill their caches of primitives
    first, last = warm[: len(warm) // 3], warm[-(len(warm) // 3) :]
    first, last = ([statistics.median(values) for values in zip(*third, strict=True)] for third in (first, last))
    time.sleep(1)
    left = children(server.process.pid)
    server.end()
    tell(capsys, load, server, first, last)
    assert not left and "Traceback" not in server.log.read_text()
    assert last[1] - first[1] < 10 and last[2] - first[2] < 4
    assert last[0] - first[0] < growth


def check_all_kinds(load, restarts):
    """Each kind of request got what it should at least once, and refusals were for the reasons that there may be."""
    got = {kind: {result for one, result in load.found if one == kind} for kind in KINDS}
    busy = {"rate_limit_exceeded", "service_unavailable", "timeout", AWAY, STARVED}
    assert all("answered" in got[kind] for kind in KINDS[:4]) and got["gone"] == {GONE}
    assert all(got[kind] <= busy | {"answered"} for kind in (*KINDS[:4], "late"))
    assert any(result.startswith("refused with") for result in got["wrong"])
    assert load.saved >= restarts


def tell(capsys, load, server, first, last):
    """Print what was counted."""
    by_kind = {kind: {} for kind in KINDS}
    for (kind, result), count in sorted(load.found.items()):
        by_kind[kind][result] = count
    with capsys.disabled():
        print(f"\n{sum(load.found.values())} requests: {json.dumps(by_kind)}")
        print(f"refused by reason, as /metrics has it: {json.dumps(dict(server.refused))}")
        print(f"{load.saved} requests were running when the server was told to end, and were answered")
        for third, (megabytes, files, threads) in (("first", first), ("last", last)):
            print(f"{third} third once it is warm: {megabytes:.0f} MB, {files:g} files, {threads:g} threads")
