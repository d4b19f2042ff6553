"""Pretrained encoders: what is read from a folder, and what is refused."""

import shutil

import numpy as np
import pytest
import torch
import transformers

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import pretrained
from espnet_diverse.nets.bert import BertFrontend
from espnet_diverse.nets.pretrained import Embedder


def test_what_is_no_encoder_is_refused_in_one_line(tiny_bert, tmp_path):
    with pytest.raises(
        ConfigError, match=r"^/nowhere/bert: cannot be read as a pretrained encoder \(.*\); give a fold"
    ):
        BertFrontend(9, bert="/nowhere/bert")
    with pytest.raises(ConfigError, match="frontend_conf.bert is not given; name the encoder, --set frontend_conf.ber"):
        BertFrontend(9)
    broken = shutil.copytree(tiny_bert, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="broken: cannot be read as a pretrained encoder"):
        pretrained.load(broken)
    (broken / "model.safetensors").unlink()
    torch.save({}, broken / "pytorch_model.bin")  # a pickle, which is not opened
    with pytest.raises(ConfigError, match="broken: cannot be read as a pretrained encoder .*safetensors"):
        pretrained.load(broken)
    transformers.T5Config(d_model=8, num_layers=1, num_heads=2).save_pretrained(tmp_path / "t5")
    with pytest.raises(ConfigError, match="t5 is an encoder with a decoder; give an encoder such as BERT"):
        pretrained.read_config(tmp_path / "t5")


def test_missing_parameters_are_refused(tiny_bert, tmp_path):
    small = transformers.BertModel.from_pretrained(tiny_bert)
    small.encoder.layer = small.encoder.layer[:1]
    small.save_pretrained(tmp_path)
    shutil.copy(tiny_bert / "config.json", tmp_path / "config.json")
    with pytest.raises(ConfigError, match=r"model.safetensors lacks \d+ parameters, first encoder.layer.1."):
        pretrained.load(tmp_path)


def test_a_long_text_is_cut(tiny_bert):
    short, long = Embedder(tiny_bert)(["a" * 18, "a" * 40])
    np.testing.assert_allclose(short, long, atol=1e-5)
    assert short.shape == (18, 8)


def test_a_layer_that_is_not_there_is_refused(tiny_bert):
    with pytest.raises(ConfigError, match="layer 3 is not allowed; .* has layers 0, its input, to 2"):
        Embedder(tiny_bert, 3)
