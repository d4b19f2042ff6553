import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from serve.running import ENDLESS
from starlette.testclient import TestClient

from espnet_diverse.bin.main import main
from espnet_diverse.serve.application import Server


def test_it_serves_until_interrupted(tiny_run, tmp_path):
    code = f"{ENDLESS}from espnet_diverse.bin.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "demo", str(tiny_run.model_dir), "--port", "0", "--vad", "energy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            line = process.stdout.readline()
            url = line.split()[0]
            assert line == f"{url} serves {tiny_run.model_dir.name}; press Ctrl+C to stop\n"
            with urllib.request.urlopen(f"{url}about", timeout=60) as answer:
                assert json.load(answer)["task"] == "asr"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_opened_and_has_the_examples(tiny_run, monkeypatch, capsys):
    opened, about = [], []

    def run(self, app):
        with TestClient(app) as client:
            about.append(client.get("/about").json())

    monkeypatch.setattr(Server, "run", run)
    monkeypatch.setattr("webbrowser.open", opened.append)
    options = ["--vad", "energy", "--open", "--examples", str(tiny_run.test_dir / "test-00.wav")]
    assert main(["demo", str(tiny_run.model_dir), "--port", "0", *options]) == 0
    url, _, said = capsys.readouterr().out.partition(" ")
    assert said == f"serves {tiny_run.model_dir.name}; press Ctrl+C to stop\n" and opened == [url]
    assert (about[0]["task"], [each["name"] for each in about[0]["examples"]]) == ("asr", ["test-00.wav"])


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max_seconds", "0"], "max_seconds must be above 0, but is 0"),
        (["--max_megabytes", "inf"], "max_megabytes must be a finite number, but is inf"),
        (["--port", "70000"], "--port 70000: a port is a number from 0 to 65535; give another one"),
        (["--port", "0"], "is not the directory of a run, because it has no config.yaml"),
    ],
)
def test_invalid_options_and_models_are_refused(options, message, tmp_path, capsys):
    assert main(["demo", str(tmp_path), *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith("espnet-diverse demo: error: ") and message in said and said.count("\n") == 1


@pytest.mark.usefixtures("unchecked_paths")
def test_a_port_in_use_is_told_before_the_model_is_read(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["demo", str(tmp_path / "no model"), "--port", str(port)]) == 1
    assert f"--port {port}: Address already in use; give another one, or 0 for any free port" in capsys.readouterr().err
