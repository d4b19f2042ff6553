"""The programs and commands of docs/serve.md, against a running server."""

import json
import shlex
import shutil
import sys

import pytest
import soundfile
from references.markdown import ROOT, blocks, lines, printed, run
from references.tones import RATE, tones

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
    assert "this model does not transcribe while somebody speaks; send a whole recording" in done.stderr + done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("line", [line for line in CURL if "Authorization" not in line])
def test_curl(served, folder, line):
    done = run(shlex.split(here(line, served.server)), folder)
    text = served.recognizer("streaming").transcribe(folder / "talk.wav").text
    assert done.returncode == 0 and "error" not in done.stdout
    assert text and ("-->" in done.stdout if "srt" in line else text in done.stdout)


def test_no_command_is_left_out():
    assert len(CURL) == 4
    known = ("curl ", "espnet-diverse serve ", "docker ", "export ESPNET_DIVERSE_API_KEY=")
    assert [line for line in lines(PAGE) if not line.startswith(known)] == []
