"""Publishing at a Hub that is a folder laid out as its cache; there is no network."""

import shutil
import sys
from pathlib import Path

import huggingface_hub
import pytest
from references.tones import RATE, tones

from espnet_diverse.bin.main import main
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.packing.archive import unpacked

VERSION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """What `push` calls of the Hub's client, whose repositories are snapshots in the cache."""

    cache: Path
    private = None

    def create_repo(self, name, private, exist_ok):
        assert exist_ok
        type(self).private = private

    def upload_folder(self, folder_path, repo_id, commit_message):
        repository = self.cache / f"models--{repo_id.replace('/', '--')}"
        shutil.copytree(folder_path, repository / "snapshots" / VERSION)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(VERSION)
        return f"commit {commit_message} of {repo_id}"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    Hub.cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(Hub.cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    return Hub


@pytest.fixture
def pack(tiny_run, tmp_path):
    return ["pack", str(tiny_run.model_dir), "--output", str(tmp_path / "model.zip")]


def test_what_is_published_is_used_by_its_name(hub, pack, tmp_path, capfd):
    assert main([*pack, "--push_to", "somebody/tones", "--private", "--name", "Tones"]) == 0
    path, commit = capfd.readouterr().out.strip().splitlines()
    assert commit == "commit Upload model.zip of somebody/tones" and hub.private is True
    folder = unpacked(Path("hf:somebody/tones"))
    assert "transcribe hf:somebody/tones recording.wav" in (folder / "README.md").read_text()
    uncut, samples = SegmentationOptions(vad="none"), tones(1, seed=0)
    found, expected = (Recognizer(each, segmentation=uncut)(samples, RATE) for each in ("hf:somebody/tones", path))
    assert found == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--push_to", "tones"], "push_to 'tones' is not the name of a repository; give owner/name"),
        (["--push_to", "../tones"], "push_to '../tones' is not the name of a repository; give owner/name"),
        (["--private"], "--private is for a repository; give --push_to too"),
    ],
)
def test_options_are_checked_before_a_model_is_packed(hub, pack, options, message, tmp_path, capfd):
    assert main([*pack, *options]) == 1
    assert message in capfd.readouterr().err and not (tmp_path / "model.zip").exists()


def test_the_extra_is_named(pack, monkeypatch, tmp_path, capfd):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main([*pack, "--push_to", "somebody/tones"]) == 1
    assert "pip install 'espnet_diverse[hub]'" in capfd.readouterr().err and not (tmp_path / "model.zip").exists()


def test_the_file_stays_where_the_hub_refuses(hub, pack, monkeypatch, tmp_path, capfd):
    def create_repo(*_, **__):
        raise OSError("401 Client Error. (Request ID: 1)\nInvalid username or password.")

    monkeypatch.setattr(hub, "create_repo", create_repo)
    assert main([*pack, "--push_to", "somebody/tones"]) == 1
    said = capfd.readouterr()
    assert "model.zip: is packed, and cannot be published as somebody/tones (401 Client Error" in said.err
    assert said.err.count("\n") == 1 and (tmp_path / "model.zip").is_file() and "Invalid" not in said.err
