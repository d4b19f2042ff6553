"""The programs and commands of docs/serve.md, against a running server."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys

import httpx
import pytest
import soundfile
from references.markdown import ROOT, blocks, lines, printed, run
from references.tones import RATE, tones
from serve.running import running, wait_for
from websockets.sync.client import connect

from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.models import Models
from espnet_diverse.serve.transcriptions import api

PAGE = ROOT / "docs" / "serve.md"
CURL = [line for line in lines(PAGE) if line.startswith("curl")]


@pytest.fixture
def folder(tmp_path):
    """A folder with talk.wav, as the page names it."""
    soundfile.write(tmp_path / "talk.wav", tones(2.0, 5), RATE)
    return tmp_path


def here(text, server):
    """A program of the page with the address and a model of this server."""
    return (
        text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
        .replace('"mine"', '"streaming"')
        .replace("model=mine", "model=streaming")
    )


def test_openais_client(served, folder):
    (block,) = [block for block in blocks(PAGE, "python") if "openai" in block]
    done = run([sys.executable, "-c", here(block, served.server)], folder)
    assert done.returncode == 0, done.stderr
    assert printed(done) == served.recognizer("streaming").transcribe(folder / "talk.wav").text != ""


def test_the_websocket(served, folder):
    (block,) = [block for block in blocks(PAGE, "python") if "websockets" in block]
    done = run([sys.executable, "-c", here(block, served.server)], folder)
    assert done.returncode == 0, done.stderr
    *texts, end = printed(done).splitlines()
    assert texts and end == "{'type': 'end', 'heard': 2.0}"
    shown = [json.loads(line) for line in "".join(blocks(PAGE, "text")[:1]).splitlines()]
    assert [one["type"] for one in shown] == ["partial", "final", "end"]
    assert all(f"'{key}'" in texts[-1] for key in shown[0])


def test_the_websocket_of_a_model_that_does_not_stream(served, folder):
    (block,) = [block for block in blocks(PAGE, "python") if "websockets" in block]
    done = run([sys.executable, "-c", here(block, served.server).replace("=streaming", "=tones")], folder)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "this model does not stream; send a whole recording" in done.stderr + done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("line", [line for line in CURL if "Authorization" not in line])
def test_curl(served, folder, line):
    done = run(shlex.split(here(line, served.server)), folder)
    text = served.recognizer("streaming").transcribe(folder / "talk.wav").text
    assert done.returncode == 0 and "error" not in done.stdout
    assert text and ("-->" in done.stdout if "srt" in line else text in done.stdout)


NGINX = shutil.which("nginx")


@pytest.fixture
def nginx(load, folder):
    """Port of nginx with the configuration of the page, without TLS, before a server with the key "secret"."""
    (block,) = [block for block in blocks(PAGE, "text") if "proxy_pass" in block]
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    models = Models(["streaming"], load, 1)
    with running(api(models, Limits()), key="secret") as server:
        block = block.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace(
            "127.0.0.1:8000", f"127.0.0.1:{server.port}"
        )
        block = re.sub(r"^ *ssl_.*\n", "", block, flags=re.MULTILINE)
        paths = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        head = f"pid {folder}/pid; error_log {folder}/errors; daemon off; master_process off; events {{}}\n"
        (folder / "nginx.conf").write_text(f"{head}http {{ access_log off; {paths}\n{block}}}\n")
        with subprocess.Popen([NGINX, "-c", folder / "nginx.conf", "-e", folder / "errors"]) as process:
            try:
                wait_for(lambda: process.poll() is not None or (folder / "pid").exists())
                assert process.poll() is None, (folder / "errors").read_text()
                yield port
            finally:
                process.terminate()


@pytest.mark.skipif(NGINX is None, reason="there is no nginx on this machine")
def test_nginx(nginx, load, folder):
    text = load.recognizer("streaming").transcribe(folder / "talk.wav").text
    base, key = f"http://127.0.0.1:{nginx}", {"Authorization": "Bearer secret"}
    with httpx.Client(base_url=base, headers=key, timeout=60) as client:

        def post(content, **fields):
            return client.post("/v1/audio/transcriptions", files={"file": content}, data=fields)

        talk = (folder / "talk.wav").read_bytes()
        assert post(talk).json() == {"text": text} and post(b"no audio").status_code == 400
        *deltas, done = [json.loads(line[6:]) for line in post(talk, stream="true").text.splitlines() if line]
        assert done["text"] == "".join(one["delta"] for one in deltas) == text
        assert post(bytes(25_100_000)).status_code == 413 and post(bytes(27_000_000)).status_code == 413
        assert client.get("/v1/models", headers={"Authorization": "none"}).status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
    url = f"{base.replace('http', 'ws')}/v1/audio/stream"
    samples, _ = soundfile.read(folder / "talk.wav", dtype="int16")
    with connect(url, additional_headers=key, origin=base) as live:
        live.send(samples[: len(samples) // 2].tobytes())
        assert json.loads(live.recv(60))["type"] == "partial"  # before the end is sent
        live.send(samples[len(samples) // 2 :].tobytes())
        live.send("end")
        messages = [json.loads(message) for message in live]
    assert messages[-1] == {"type": "end", "heard": 2.0} and messages[-2]["type"] == "final"


def test_no_command_is_left_out():
    assert len(CURL) == 4
    known = ("curl ", "espnet-diverse serve ", "docker ", "export ESPNET_DIVERSE_API_KEY=")
    assert [line for line in lines(PAGE) if not line.startswith(known)] == []
