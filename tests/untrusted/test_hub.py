"""Models by name, from a folder laid out as the cache of the Hugging Face Hub; there is no network."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import pytest
import yaml
from references.tones import RATE, tones

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.inference import Recognizer, SegmentationOptions, Translator
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.untrusted.hub import encoder_folder, fetched, name_of

VERSION = "0123456789abcdef0123456789abcdef01234567"
UNCUT = SegmentationOptions(vad="none")


def publish(run_dir, hub, name, tmp_path):
    """Put a run into the cache as a repository of ESPnet: the members of a packed model."""
    assert main(["pack", str(run_dir), "--output", str(tmp_path / "model.zip"), "--weights", "pth"]) == 0
    repository = hub / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / VERSION
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        archive.extractall(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(VERSION)
    return snapshot


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The empty cache of a machine without network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "hub"


@pytest.fixture
def asked(monkeypatch):
    """Names of the repositories that the Hub is asked for."""
    found = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: found.append(name) or "/nowhere")
    return found


def test_a_name_begins_with_hf_and_has_an_owner():
    assert name_of("hf:espnet/model_1.0") == name_of(Path("hf:espnet/model_1.0")) == "espnet/model_1.0"
    for path in ("exp/model", "espnet/model", "model", "a/b/c", "/hf:espnet/model", "HF:espnet/model", "../model"):
        assert name_of(path) is None
    for wrong in ("hf:", "hf:model", "hf:a/b/c", "hf:../model", "hf:/espnet/model", "hf:espnet/..", "hf:espnet/"):
        with pytest.raises(ModelError, match=f"^{wrong}: .*; give hf:owner/name"):
            name_of(wrong)


@pytest.mark.parametrize("path", ["exp/sdma", "espnet/model", "sdma", "exp/sdma.zip"])
def test_a_path_that_does_not_exist_is_never_asked_of_the_hub(path, hub, asked, tiny_run, capfd):
    data = ["--data_dir", str(tiny_run.test_dir), "--output_dir", "out"]
    audio = str(tiny_run.test_dir / "test-00.wav")
    commands = [
        ["decode", path, *data],
        ["adopt", path, *data[2:]],
        ["translate", path, audio],
        ["pack", path, "--output", "out"],
    ]
    commands += [["transcribe", path, audio], ["perplexity", path, *data], ["demo", path], ["analyse", path, *data]]
    commands += [["decode", str(tiny_run.model_dir), "--lm", path, *data]]
    for command in commands:
        assert main(command) == 1
        (line,) = capfd.readouterr().err.splitlines()
        assert f"error: {path}: no such model; " in line and "hf:owner/name" in line, command
    for kind in (Recognizer, Recognizer.from_pretrained, Translator, Translator.from_pretrained):
        with pytest.raises(ModelError, match=f"^{path}: no such model; .* hf:owner/name"):
            kind(path)
    with pytest.raises(ConfigError, match=f"^{path}: no such folder; .* hf:owner/name"):
        encoder_folder(path)
    assert not asked


def test_an_encoder_is_fetched_by_its_name(asked):
    assert encoder_folder("hf:google-bert/bert-base-cased") == Path("/nowhere")
    assert asked == ["google-bert/bert-base-cased"]


def test_a_model_is_used_by_its_name(hub, tiny_run, tmp_path, capfd):
    publish(tiny_run.model_dir, hub, "espnet/tiny", tmp_path)
    samples = tones(1, seed=0)
    expected = Recognizer(tiny_run.model_dir, segmentation=UNCUT)(samples, RATE)
    assert Recognizer.from_pretrained("hf:espnet/tiny", segmentation=UNCUT)(samples, RATE) == expected
    assert unpacked("hf:espnet/tiny").name == f"espnet--tiny-{VERSION}"
    data = ["--data_dir", str(tiny_run.test_dir)]
    assert main(["decode", "hf:espnet/tiny", *data, "--output_dir", "named"]) == 0
    assert main(["decode", str(tiny_run.model_dir), *data, "--output_dir", "local"]) == 0
    assert Path("named/score").read_text() == Path("local/score").read_text()
    assert main(["adopt", "hf:espnet/tiny", "--output_dir", "adopted"]) == 0
    assert "largest difference of the outputs: 0" in capfd.readouterr().out


def test_a_text_model_is_used_by_its_name(hub, tiny_translation, tmp_path):
    publish(tiny_translation.model_dir, hub, "espnet/mt", tmp_path)
    assert Translator.from_pretrained("hf:espnet/mt")("abc") == Translator(tiny_translation.model_dir)("abc")


def test_files_of_a_repository_are_checked(hub, tiny_run, tmp_path):
    snapshot = publish(tiny_run.model_dir, hub, "espnet/odd", tmp_path)
    config = yaml.safe_load((snapshot / "config.yaml").read_text())
    (snapshot / "config.yaml").write_text(yaml.safe_dump(config | {"frontend": "s3prl"}))
    with pytest.raises(ModelError, match="hf:espnet/odd: frontend 's3prl' is not allowed in a packed model"):
        unpacked("hf:espnet/odd")
    shutil.copy(snapshot / "config.yaml", snapshot.parents[3])
    (snapshot / "meta.yaml").write_text(yaml.safe_dump({"files": {"asr_model_file": "../x"}, "yaml_files": {}}))
    with pytest.raises(ModelError, match="hf:espnet/odd: contains nothing; supported tasks"):
        unpacked("hf:espnet/odd")


def test_a_missing_repository_or_package_is_named(hub, monkeypatch, capfd):
    assert main(["decode", "hf:espnet/gone", "--data_dir", ".", "--output_dir", "out"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "error: hf:espnet/gone: cannot be fetched from the Hugging Face Hub (" in line
    assert line.endswith("; check the name and the network, or give a directory or a packed model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError, match=r"hf:espnet/gone: .* pip install 'espnet_diverse\[hub\]'"):
        fetched("espnet/gone")


@pytest.mark.parametrize(("said", "shown"), [("no host.\nIs it up?", "no host"), ("", "ValueError")])
def test_the_first_line_of_the_reason_is_shown(hub, monkeypatch, said, shown):
    def snapshot_download(*_, **__):
        raise ValueError(said)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(ModelError, match=rf"^hf:espnet/gone: .* from the Hugging Face Hub \({shown}\); check the name"):
        fetched("espnet/gone")


@pytest.mark.parametrize("files", [{"model.pth": 1 << 36}, dict.fromkeys(map(str, range(10_000)), 1)])
def test_a_repository_beyond_any_model_is_not_fetched(hub, asked, monkeypatch, files):
    files = {**files, "notes.png": 1 << 40, "config.json": 1}
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
    answer = SimpleNamespace(siblings=siblings)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda api, name, files_metadata: answer)
    fetched("espnet/huge", ["config.json", "*.png"])
    assert asked == ["espnet/huge"]
    with pytest.raises(ModelError, match=r"^hf:espnet/huge: has .* and at most 10000 files of 34 GB are fetched; "):
        fetched("espnet/huge")
    assert asked == ["espnet/huge"]


def test_the_cache_of_the_user_is_used_by_the_program(hub, tiny_run, tmp_path):
    publish(tiny_run.model_dir, hub, "espnet/tiny", tmp_path)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    arguments = ["transcribe", "hf:espnet/tiny", str(tiny_run.test_dir / "test-00.wav"), "--vad", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "espnet_diverse", *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = Recognizer(tiny_run.model_dir, segmentation=UNCUT)(tiny_run.test_dir / "test-00.wav").text
    assert done.returncode == 0 and done.stdout.strip() == expected
