"""Pretrained frontends in configurations: what config.yaml holds of them, and models that ESPnet trained with them."""

import shutil
from pathlib import Path

import pytest
import torch
import yaml
from conftest import train_run, write_data_dir
from espnet2.asr.frontend.huggingface import HuggingFaceFrontend as Theirs
from references.speech_encoders import write_encoder

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.frontends import check_frontend, described, pretrained_encoders, standalone
from espnet_diverse.runs.tasks import TASKS, load_model
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.untrusted.foreign_config import TRUST

CONFIG = Path("exp/config.yaml")
SAMPLES = torch.randn(2, 9000, generator=torch.Generator().manual_seed(0)), torch.tensor([9000, 8000])
PLAIN = {"frontend_type": "default", "n_mels": 16, "n_fft": 128, "hop_length": 128}
MODEL = {
    "task": "asr",
    "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
    "frontend": "huggingface",
    "normalize": "utterance_mvn",
    "normalize_conf": {},
    "encoder": "transformer",
    "encoder_conf": {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
}


@pytest.fixture
def folder(tmp_path):
    return write_encoder(tmp_path / "encoder")


@pytest.fixture
def theirs(folder, tmp_path):
    """A model as ESPnet trains it, whose config.yaml names the folder of the encoder, and ESPnet's frontend."""
    conf = {"frontend_conf": {"model": str(folder), "fs": "16k", "download_dir": None}}
    run = tmp_path / "exp"
    args = TASKS["asr"].get_parser().parse_args([])
    vars(args).update(MODEL | conf)
    model = TASKS["asr"].build_model(args)
    model.frontend = Theirs(str(folder))
    for parameter in model.frontend.parameters():
        parameter.data.mul_(1.1)  # trained
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump(vars(args) | conf))
    checkpoint.save(model.state_dict(), run / "valid.acc.ave.pth")
    return run, model.eval()


def test_a_model_of_espnet_has_the_outputs_of_espnet(theirs):
    run, expected = theirs
    model, args = load_model(run)
    assert type(model.frontend) is HuggingFaceFrontend and args.frontend_conf["model"] is None
    with torch.no_grad():
        (x, lengths), (y, counts) = model.eval().encode(*SAMPLES), expected.encode(*SAMPLES)
    assert torch.equal(x, y) and torch.equal(lengths, counts)


def test_a_model_of_espnet_is_packed_with_its_encoder(theirs, folder, tmp_path, monkeypatch):
    run, expected = theirs
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    assert main(["pack", str(run), "--output", str(tmp_path / "m.zip")]) == 0
    shutil.rmtree(folder)
    from espnet_diverse.runs.packed.archive import unpacked

    model, _ = load_model(unpacked(tmp_path / "m.zip"))
    with torch.no_grad():
        assert torch.equal(model.eval().encode(*SAMPLES)[0], expected.encode(*SAMPLES)[0])
    with pytest.raises(ModelError, match=r"the architecture of the pretrained encoder is unknown: .*: no such folder"):
        load_model(run)


def test_a_folder_beside_a_moved_model_is_found(theirs, folder, tmp_path):
    run, _ = theirs
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["frontend_conf"]["model"] = "downloads/encoder"  # relative to the recipe
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "downloads").mkdir()
    shutil.move(folder, tmp_path / "downloads")
    load_model(run)


@pytest.mark.parametrize(("name", "instead"), [("s3prl", "hubert-base-ls960"), ("Whisper", "openai/whisper-small")])
def test_frontends_that_fetch_or_execute_are_refused(name, instead, monkeypatch):
    with pytest.raises(ConfigError, match=f"frontend {name.lower()} is not allowed: .*huggingface.*{instead}.*{TRUST}"):
        check_frontend({"frontend": name})
    monkeypatch.setenv(TRUST, "1")
    check_frontend({"frontend": name})
    check_frontend({"frontend": None})


def test_training_with_them_is_refused_before_it_begins(tiny_run, tmp_path, capfd):
    paths = ["--output_dir", str(tmp_path / "stats"), "--set=frontend=whisper", "--set=frontend_conf={}"]
    assert main(["stats", *tiny_run.config, *tiny_run.data(), *paths]) == 1
    (line,) = capfd.readouterr().err.strip().splitlines()[-1:]
    assert "frontend whisper is not allowed" in line and not (tmp_path / "stats").exists()


def test_architectures_of_all_frontends_are_described(folder, tiny_bert):
    conf = {"model": str(folder), "layer": 1}
    frontend = HuggingFaceFrontend(**conf)
    assert described(conf, frontend) == conf | {"architecture": frontend.architecture}
    bert = BertFrontend(15, bert=str(tiny_bert))
    assert described({"bert": "x"}, bert) == {"bert": "x", "bert_config": bert.bert_config}
    assert described({"n_mels": 3}, None) == {"n_mels": 3}


def test_a_trained_model_names_no_folder(folder):
    architecture = HuggingFaceFrontend(str(folder)).architecture
    given = {"model": str(folder), "download_dir": "/x", "load_pretrained": True, "layer": 1}
    expected = {"model": None, "layer": 1, "architecture": architecture}
    for options in (given, given | {"architecture": architecture}):
        assert standalone({"frontend": "huggingface", "frontend_conf": options}, CONFIG) == expected
        part = {"frontend_type": "huggingface", **options}
        fused = standalone({"frontend": "fused", "frontend_conf": {"frontends": [PLAIN, part]}}, CONFIG)
        assert fused == {"frontends": [PLAIN, {"frontend_type": "huggingface", **expected}]}
    assert standalone({"frontend": "bert", "frontend_conf": {"bert": "x"}}, CONFIG) == {"bert": None}
    with pytest.raises(ModelError, match="frontend_conf has neither architecture nor model; restore config.yaml"):
        standalone({"frontend": "huggingface", "frontend_conf": {"layer": 1}}, CONFIG)


def test_pretrained_encoders_are_told_with_how_they_were_trained(folder):
    architecture = HuggingFaceFrontend(str(folder)).architecture
    for changes, frozen in (
        ({}, False),
        ({"freeze_param": ["encoder.x"]}, False),
        ({"freeze_param": ["frontend.encoder"]}, True),
        ({"freeze_param": ["frontend"]}, True),
        ({"freeze_param": "frontend"}, True),
        ({"freeze_param": ["front"]}, False),
    ):
        config = {"frontend": "huggingface", "frontend_conf": {"architecture": architecture}} | changes
        assert list(pretrained_encoders(config)) == [(architecture, frozen)]
    config = {"frontend": "huggingface", "frontend_conf": {"architecture": architecture, "freeze_weights": True}}
    assert list(pretrained_encoders(config)) == [(architecture, True)]
    parts = [PLAIN, {"frontend_type": "huggingface", "architecture": architecture}]
    fused = {"frontend": "fused", "frontend_conf": {"frontends": parts}}
    assert list(pretrained_encoders(fused)) == [(architecture, True)]
    assert list(pretrained_encoders({"frontend": "default"})) == []


def test_a_fused_frontend_trains_and_decodes_without_the_folder(folder, tmp_path):
    Vocabulary.train(["abcd"], "char").save(tmp_path / "tokens")
    for name, count, seed in (("train", 12, 1), ("valid", 4, 2), ("test", 3, 3)):
        write_data_dir(tmp_path / name, count, seed, 16000)
    conf = {"frontend_conf": {"proj_dim": 10, "frontends": [PLAIN, {"frontend_type": "huggingface", "model": "M"}]}}
    conf["frontend_conf"]["frontends"][1]["model"] = str(folder)
    conf |= {"max_epoch": 2, "batch_type": "unsorted", "batch_size": 6, "num_workers": 0, "optim": "adam"}
    conf |= {key: MODEL[key] for key in ("normalize", "encoder", "encoder_conf", "decoder", "decoder_conf")}
    conf |= {"frontend": "fused", "best_model_criterion": [["valid", "acc", "max"]]}
    (tmp_path / "fused.yaml").write_text(yaml.safe_dump(conf))
    before = HuggingFaceFrontend(str(folder)).encoder.state_dict()
    run = train_run(tmp_path, ["--config", str(tmp_path / "fused.yaml")])
    shutil.rmtree(folder)
    assert main(["pack", str(run.model_dir), "--output", str(tmp_path / "m.zip")]) == 0
    texts = []
    for model in (run.model_dir, tmp_path / "m.zip"):
        out = tmp_path / "out" / model.name
        assert main(["decode", str(model), "--data_dir", str(run.test_dir), "--output_dir", str(out)]) == 0
        texts.append((out / "text").read_text())
    assert texts[0] == texts[1]
    after = checkpoint.load_weights(run.model_dir / "2epoch.pth")
    assert all(torch.equal(value, after[f"frontend.frontends.1.encoder.{name}"]) for name, value in before.items())


@pytest.mark.parametrize(
    ("freeze", "unfreeze", "frozen"),
    [
        ("frontend", [], True),
        (["frontend.encoder"], [], True),
        (["frontend.*"], [], True),
        (["encoder", "*"], None, True),
        (["frontend.encoder.*"], ["encoder", "frontend.project*"], True),
        (["frontend.encoder.layers"], [], False),
        (["frontend.encoder.layers.*"], [], False),
        (["*.weight"], [], False),
        ([], [], False),
        ("frontend", "frontend.encoder.layers.11", False),
        (["frontend"], ["frontend.*"], False),
        (["*"], ["*.bias"], False),
        (["*"], ["encoder.*", "ctc"], True),
    ],
)
def test_an_encoder_is_frozen_by_names_and_patterns_of_parameters(freeze, unfreeze, frozen):
    config = {"frontend": "huggingface", "frontend_conf": {"architecture": {"model_type": "hubert"}}}
    config |= {"freeze_param": freeze, "unfreeze_param": unfreeze}
    assert [found for _, found in pretrained_encoders(config)] == [frozen]
