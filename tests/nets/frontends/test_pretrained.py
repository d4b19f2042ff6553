"""Pretrained encoders: reading from a folder, and refused folders and configurations."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import transformers

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.frontends import pretrained
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.frontends.pretrained import Embedder
from espnet_diverse.nets.frontends.pretrained_config import TYPES


def test_missing_corrupt_and_unsupported_encoders_are_refused(tiny_bert, tmp_path):
    for read in (pretrained.load, pretrained.read_config):
        for path in ("/nowhere/bert", "exp/bert"):  # the latter is no name of a repository
            with pytest.raises(ConfigError, match=f"^{path}: no such folder; .* hf:owner/name"):
                read(path)
    with pytest.raises(ConfigError, match=r"^bert_config: model_type 'no_such_type' is not allowed"):
        pretrained.build({"model_type": "no_such_type"})
    broken = shutil.copytree(tiny_bert, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="broken: cannot be read as a pretrained encoder"):
        pretrained.load(broken)
    (broken / "model.safetensors").unlink()
    torch.save({}, broken / "pytorch_model.bin")  # a pickle, which is not opened
    with pytest.raises(ConfigError, match="broken: cannot be read as a pretrained encoder .*safetensors"):
        pretrained.load(broken)
    for content, said in (
        (b"[", "cannot be read .Expecting"),
        (b"[]", "is not the configuration"),
        (None, "No such f"),
    ):
        (broken / "config.json").unlink()
        if content is not None:
            (broken / "config.json").write_bytes(content)
        with pytest.raises(ConfigError, match=f"broken/config.json: .*{said}"):
            pretrained.read_config(broken)
        (broken / "config.json").touch()
    transformers.T5Config(d_model=8, num_layers=1, num_heads=2).save_pretrained(tmp_path / "t5")
    with pytest.raises(ConfigError, match="t5/config.json: model_type 't5' is not allowed"):
        pretrained.read_config(tmp_path / "t5")


def test_missing_transformers_error_tells_how_to_install_it(tiny_bert, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    said = r"^a pretrained encoder needs transformers; run: pip install 'espnet_diverse\[bert\]'$"
    with pytest.raises(ConfigError, match=said):
        pretrained.load(tiny_bert)


def test_missing_parameters_are_refused(tiny_bert, tmp_path):
    small = transformers.BertModel.from_pretrained(tiny_bert)
    small.encoder.layer = small.encoder.layer[:1]
    small.save_pretrained(tmp_path)
    shutil.copy(tiny_bert / "config.json", tmp_path / "config.json")
    with pytest.raises(ConfigError, match=r"model.safetensors lacks \d+ parameters, first encoder.layer.1."):
        pretrained.load(tmp_path)


def test_an_encoder_far_larger_than_its_weights_is_not_built(tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "large")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 20_000}))
    for read in (pretrained.load, lambda bert: BertFrontend(9, bert=str(bert))):
        with pytest.raises(ModelError, match="large: the configuration asks for a far larger model than these weights"):
            read(folder)


def test_a_long_text_is_cut(tiny_bert):
    short, long = Embedder(tiny_bert)(["a" * 18, "a" * 40])
    np.testing.assert_allclose(short, long, atol=1e-5)
    assert short.shape == (18, 8)


def test_a_layer_that_is_not_there_is_refused(tiny_bert):
    with pytest.raises(ConfigError, match="layer 3 is not allowed; .* has layers 0, its input, to 2"):
        Embedder(tiny_bert, 3)


def test_an_encoder_is_built_from_its_plain_configuration(tiny_bert):
    config = pretrained.read_config(tiny_bert)
    assert config["model_type"] == "bert" and not {"architectures", "auto_map", "dtype"} & set(config)
    built, loaded = pretrained.build(config), pretrained.load(tiny_bert)
    shapes = [{name: each.shape for name, each in net.state_dict().items()} for net in (built, loaded)]
    assert shapes[0] == shapes[1] and not any(name.startswith("pooler") for name in shapes[0])
    assert not built.training and not loaded.training


SIZES = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
DISTILLED = {"vocab_size": 9, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_built_and_embeds(kind):
    sizes = DISTILLED if kind == "distilbert" else SIZES
    encoder = pretrained.build({"model_type": kind, **sizes})
    assert encoder(input_ids=torch.tensor([[2, 3, 4]])).last_hidden_state.shape == (1, 3, 8)


def test_positions_include_the_special_tokens():
    for model_type in TYPES:
        sizes = DISTILLED if model_type == "distilbert" else SIZES
        padded = model_type in ("camembert", "roberta", "xlm-roberta")
        config = {**sizes, "model_type": model_type, "max_position_embeddings": 20, "pad_token_id": int(padded)}
        assert pretrained.positions(pretrained.build(config)) == (18 if padded else 20)


def test_embeddings_have_unit_length_and_do_not_depend_on_the_batch(tiny_bert, monkeypatch):
    texts = ["abcd abx", "d", "", "cab dac a"]
    embed = Embedder(tiny_bert)
    together = embed(texts)
    monkeypatch.setattr(Embedder, "batch_size", 1)
    for found, alone in zip(together, embed(texts), strict=True):
        np.testing.assert_allclose(found, alone, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.ones(len(found)), atol=1e-6)
    assert len(together[2]) == 0 and embed.name == f"model:{tiny_bert.name}|layer:2"
