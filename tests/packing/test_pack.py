"""Packing: weights and metadata of a run in one file, without paths of the machine."""

import shutil
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import huggingface_hub
import pytest
import torch
import yaml
from espnet2.bin.pack import main as espnets_pack
from espnet2.bin.s2t_inference import Speech2Text
from espnet2.main_funcs.pack_funcs import unpack as espnets_unpack
from references import owsm_ctc
from references.tones import RATE, tones

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import WEIGHTS, pack
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import load_model


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_packed_model_has_the_weights_of_its_run(tiny_run, tmp_path, weights):
    model_dir = unpacked(pack(tiny_run.model_dir, tmp_path / "model.zip", Facts(), weights=weights))
    (tmp_path / "model.zip").unlink()
    expected = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    found = load_model(model_dir)[0].state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_the_same_model_gives_the_same_file_without_paths_of_the_machine(tiny_run, packed, tmp_path):
    again = pack(tiny_run.model_dir, tmp_path / "again" / "model.zip", Facts())
    assert again.read_bytes() == packed.read_bytes()
    with zipfile.ZipFile(packed) as archive:
        config = archive.read("config.yaml").decode()
        meta = yaml.safe_load(archive.read("meta.yaml"))
    assert str(tiny_run.model_dir.parent) not in config
    assert meta["files"] == {"asr_model_file": "valid.acc.ave.pth"} and meta["espnet"] == version("espnet")


def test_invalid_output_weights_and_model_file_are_refused(tiny_run, tmp_path):
    with pytest.raises(ConfigError, match=r"model\.tgz: a packed model is a zip file; the name must end in \.zip"):
        pack(tiny_run.model_dir, tmp_path / "model.tgz", Facts())
    with pytest.raises(ConfigError, match="weights 'h5' is unknown; known: both pth safetensors"):
        pack(tiny_run.model_dir, tmp_path / "model.zip", Facts(), weights="h5")
    with pytest.raises(ModelError, match=r"9epoch\.pth: no such model file"):
        pack(tiny_run.model_dir, tmp_path / "model.zip", Facts(), model_file="9epoch.pth")
    assert not (tmp_path / "model.zip").exists()


def test_a_classifier_is_packed(tiny_classifier, tmp_path):
    model_dir = unpacked(pack(tiny_classifier.model_dir, tmp_path / "model.zip", Facts()))
    assert load_model(model_dir, task="cls")[0].classifier.labels == ["yy", "zz"]
    card = (model_dir / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card and "| classifier | self_attentive, 3 heads |" in card
    assert "espnet-diverse classify model.zip" in card


def test_a_multitask_model_of_ctc_is_opened_both_ways(tmp_path, monkeypatch):
    """ESPnet's archives of task s2t and s2t_ctc look alike from outside."""
    monkeypatch.chdir(tmp_path)
    samples = tones(9, 0)
    folder = owsm_ctc.write_ctc_model(tmp_path / "exp", bpemodel="exp/bpe.model")
    theirs = Speech2Text(folder / "config.yaml", folder / owsm_ctc.WEIGHTS, lang_sym="<deu>")
    expected = theirs.decode_long(samples)[0][2]
    files = ["--s2t_train_config", "exp/config.yaml", "--s2t_model_file", f"exp/{owsm_ctc.WEIGHTS}"]
    espnets_pack(["s2t", *files, "--option", "exp/bpe.model", "--outpath", "theirs.zip"])
    adopt(folder, tmp_path / "adopted", merge([], ["encoder_conf.attention.core=sdma"]))
    ours = [pack(tmp_path / name, tmp_path / f"{name}.zip", Facts()) for name in ("exp", "adopted")]
    named = espnets_unpack(ours[0], tmp_path / "espnet")
    shutil.rmtree(folder)
    assert Speech2Text(**named, lang_sym="<deu>").decode_long(samples)[0][2] == expected
    for model in (tmp_path / "theirs.zip", *ours):
        recognizer = Recognizer(model)
        assert (
            recognizer.search.task == "s2t_ctc" and recognizer(samples, owsm_ctc.RATE, language="deu").text == expected
        )


VERSION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The methods of the Hub's client that `push` calls; repositories are snapshots in the cache."""

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
def command(tiny_run, tmp_path):
    return ["pack", str(tiny_run.model_dir), "--output", str(tmp_path / "model.zip")]


def test_a_published_model_loads_by_its_hub_name(hub, command, tmp_path, capfd):
    assert main([*command, "--push_to", "somebody/tones", "--private", "--name", "Tones"]) == 0
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
def test_options_are_checked_before_a_model_is_packed(hub, command, options, message, tmp_path, capfd):
    assert main([*command, *options]) == 1
    assert message in capfd.readouterr().err and not (tmp_path / "model.zip").exists()


def test_the_extra_is_named(command, monkeypatch, tmp_path, capfd):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main([*command, "--push_to", "somebody/tones"]) == 1
    assert "pip install 'espnet_diverse[hub]'" in capfd.readouterr().err and not (tmp_path / "model.zip").exists()


def test_the_file_stays_where_the_hub_refuses(hub, command, monkeypatch, tmp_path, capfd):
    def create_repo(*_, **__):
        raise OSError("401 Client Error. (Request ID: 1)\nInvalid username or password.")

    monkeypatch.setattr(hub, "create_repo", create_repo)
    assert main([*command, "--push_to", "somebody/tones"]) == 1
    said = capfd.readouterr()
    assert "model.zip: is packed, and cannot be published as somebody/tones (401 Client Error" in said.err
    assert said.err.count("\n") == 1 and (tmp_path / "model.zip").is_file() and "Invalid" not in said.err
