"""The scripts of examples/ run as a user runs them, on tiny models; but for one, in the process of the tests."""

import runpy
import subprocess
import sys

import pytest
import soundfile
import torch
from conftest import OVERRIDES
from references.markdown import ROOT, captured, printed, run
from references.speech import write_speech

from espnet_diverse.attention import registry
from espnet_diverse.bin.main import main

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture
def example(monkeypatch):
    """A function that runs a script; cores that one registers are removed afterwards."""

    def start(name, *arguments):
        monkeypatch.setattr(registry, "_registered", {})
        monkeypatch.setattr(sys, "argv", words := [str(EXAMPLES / name), *map(str, arguments)])
        code = 0
        with captured() as (shown, said):
            try:
                runpy.run_path(words[0], run_name="__main__")
            except SystemExit as end:
                code = end.code or 0
        return subprocess.CompletedProcess(words, code, shown.getvalue(), said.getvalue())

    return start


def settings(**changes):
    """--set arguments of a tiny model, with changes."""
    return [word for key, value in (OVERRIDES | changes).items() for word in ("--set", f"{key}={value}")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_are_short(script):
    assert len(script.read_text(encoding="utf-8").splitlines()) < 60


def test_every_script_is_run_here():
    assert [script.name for script in SCRIPTS] == ["own_core.py", "transcribe.py"]


def test_transcribe_prints_segments_and_unreadable_files(tiny_run, tmp_path):
    recording = write_speech(tmp_path / "talk.wav", "good morning to all of you")
    (tmp_path / "torn.wav").write_bytes(b"RIFF")
    script = [sys.executable, EXAMPLES / "transcribe.py"]
    done = run([*script, tiny_run.model_dir, recording, tmp_path / "torn.wav"])
    assert done.returncode == 2, done.stderr
    first, segment, *_ = printed(done).splitlines()
    seconds = soundfile.info(recording).duration
    assert first == f"{recording}: {seconds:.1f} s, language not known to the model"
    assert segment.split()[:2] == ["0.00", f"{seconds:.2f}"]
    assert f"{tmp_path / 'torn.wav'}: " in done.stderr
    assert "Traceback" not in done.stderr


def train(example, tiny_run, output, *more):
    """Train for an epoch with the core of the example."""
    config = ["--config", f"model/tiny,{EXAMPLES / 'own_core.yaml'}", *settings(max_epoch=1)]
    paths = ["--stats_dir", tiny_run.stats_dir, "--output_dir", output]
    return example("own_core.py", "train", *config, *more, *tiny_run.data(), *paths)


def test_a_core_of_ones_own_trains_and_every_command_knows_it_by_the_name_of_its_module(
    example, tiny_run, tmp_path, monkeypatch, capsys
):
    run_dir = tmp_path / "exp"
    done = train(example, tiny_run, run_dir)
    assert done.returncode == 0, done.stderr
    state = torch.load(run_dir / "1epoch.pth", weights_only=True)
    scale = state["encoder.encoders.0.self_attn.core.scale"]
    assert scale.shape == (2, 1, 1)
    assert not torch.equal(scale, torch.full_like(scale, 8.0))  # that of the YAML file, which has learned
    model = [run_dir, "--model_file", "1epoch.pth"]
    decoding = ["--data_dir", tiny_run.test_dir, "--output_dir", tmp_path / "decode", "--set", "beam_size=2"]
    monkeypatch.setattr(registry, "_registered", {})
    decode = [str(word) for word in ["decode", *model, *decoding]]
    assert main(decode) == 1
    assert "unknown attention 'cosine'" in capsys.readouterr().err
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv(registry.MODULES, "own_core")
    assert main(decode) == 0
    assert len((tmp_path / "decode" / "text").read_text().splitlines()) == 3


def test_a_core_of_ones_own_is_refused_by_a_conformer(example, tiny_run, tmp_path):
    done = train(example, tiny_run, tmp_path / "exp", "--set", "encoder=diverse_conformer")
    assert done.returncode == 1
    assert "attention 'cosine' does not support relative position" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("exp/*.pth"))


def test_a_core_of_ones_own_is_refused_by_a_decoder(example, tiny_run, tmp_path):
    done = train(example, tiny_run, tmp_path / "exp", "--set", "decoder_conf.attention.core=cosine")
    assert done.returncode == 1
    assert "attention 'cosine' does not support c" in done.stderr  # causal attention, or cached decoding
