import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from serve.running import ENDLESS
from starlette.testclient import TestClient

from espnet_diverse.bin.main import command_parser, main
from espnet_diverse.bin.options.arguments import from_args
from espnet_diverse.serve import models
from espnet_diverse.serve.application import KEY_VARIABLE, Server
from espnet_diverse.transcription.segmentation_options import SegmentationOptions


def test_it_serves_until_interrupted(tiny_run, tmp_path):
    code = f"{ENDLESS}from espnet_diverse.bin.main import main; sys.exit(main(sys.argv[1:]))"
    options = ["--model", f"tones={tiny_run.model_dir}", "--host", "0.0.0.0", "--port", "0", "--vad", "energy"]
    command = [sys.executable, "-c", code, "serve", *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **streams, cwd=tmp_path, env=os.environ | {KEY_VARIABLE: "secret"}) as process:
        try:
            line = process.stdout.readline()
            url = line.split()[0]
            assert line == f"{url} serves tones; press Ctrl+C to stop\n" and url.startswith("http://0.0.0.0:")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{url}v1/models", timeout=60)
            asked = urllib.request.Request(f"{url}v1/models", headers={"Authorization": "Bearer secret"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert [one["id"] for one in json.load(answer)["data"]] == ["tones"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
        log = process.stderr.read()
    assert "Traceback" not in log and "http /v1/models 401" in log and "http /v1/models 200" in log
    assert list(tmp_path.iterdir()) == []


def test_each_model_is_loaded_by_its_name_and_dropped_for_another(tiny_run, monkeypatch, capsys, caplog):
    caplog.set_level(logging.NOTSET, "espnet_diverse.serve")  # the command sets it; so it is restored
    answers, loaded, load_model = [], [], models.load_model

    def load(*args, **how):
        loaded.append(load_model(*args, **how))
        return loaded[-1]

    def run(self, app):
        audio = (tiny_run.test_dir / "test-00.wav").read_bytes()
        with TestClient(app) as client:
            for name in ("a", "b"):
                form = {"data": {"model": name}, "files": {"file": audio}}
                while (answer := client.post("/v1/audio/transcriptions", **form)).status_code == 429:
                    time.sleep(0.02)  # a model is in use for a moment after its answer
                answers.append(answer.json())

    monkeypatch.setattr(models, "load_model", load)
    monkeypatch.setattr(Server, "run", run)
    named = [word for name in "ab" for word in ("--model", f"{name}={tiny_run.model_dir}")]
    assert main(["serve", *named, "--port", "0", "--vad", "energy", "--max_models", "1"]) == 0
    assert capsys.readouterr().out.endswith("/ serves a b; press Ctrl+C to stop\n")
    assert answers[0] == answers[1] and "text" in answers[0] and len(loaded) == 2
    loaded[1].batches.close()  # or its thread would be there when later tests fork


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "exp/sdma"], "--model exp/sdma: must be NAME=MODEL, such as mine=exp/sdma"),
        (["--model", "a=b", "--model", "a=c"], "--model a=c: the name a is given twice"),
        (
            ["--model", "a=b", "--host", "0.0.0.0"],
            "--host 0.0.0.0: other machines would reach the server without a key",
        ),
        (["--model", "a=b", "--max_waiting", "0"], "max_waiting must be at least 1, but is 0"),
        (["--model", "a=b", "--max_models", "0"], "max_models must be at least 1, but is 0"),
        (["--model", "a=b", "--batch_size", "0"], "batch_size must be at least 1, but is 0"),
        (["--model", "a=b", "--max_wait_ms", "nan"], "max_wait_ms must be a number, but is nan"),
        (["--model", "a=no_such_folder", "--port", "0"], "no_such_folder"),
    ],
)
def test_invalid_options_and_models_are_refused(options, message, monkeypatch, capsys):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert main(["serve", *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith("espnet-diverse serve: error: ") and message in said and said.count("\n") == 1


def test_text_models_are_refused_at_the_start(tiny_translation, capsys):
    assert main(["serve", "--model", f"mt={tiny_translation.model_dir}", "--port", "0"]) == 1
    assert "a model of task mt is not possible here; known: asr st s2t s2t_ctc" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["serve", "--model", "a=b"], ["demo", "m"]])
def test_the_limit_of_a_recording_is_none_of_a_segment(words):
    _, parser = command_parser(words[0])
    args = parser.parse_args([*words[1:], "--max_seconds", "7", "--vad", "energy"])
    options = from_args(importlib.import_module(f"espnet_diverse.bin.use.{words[0]}").CommandOptions, args)
    assert options.limits.seconds == 7 and options.segmentation == SegmentationOptions("energy")
