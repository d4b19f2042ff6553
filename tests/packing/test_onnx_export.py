"""The exported graph equals the model for any batch size and length."""

import json
import re
import sys
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from espnet2.asr.ctc import CTC

from espnet_diverse.attention import Core, Supports, registry
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.onnx_runtime import import_onnxruntime
from espnet_diverse.packing import onnx_export
from espnet_diverse.packing.onnx_export import EncoderCTC, export
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope

onnxruntime = import_onnxruntime()

BINS = 20
SHAPES = ([47], [64, 39], [300, 211, 90])
"""Frames of each utterance of a batch."""


class Model(torch.nn.Module):
    """The parts of a model of speech recognition that are exported, with random weights."""

    def __init__(self, kind="transformer", conditions=None, **options):
        super().__init__()
        torch.manual_seed(0)
        size = {"output_size": 16, "attention_heads": 2, "linear_units": 32, "num_blocks": 2} | options
        if kind == "e_branchformer":
            size |= {"cgmlp_linear_units": 32, "rel_pos_type": "latest"}
        self.encoder = ENCODERS[f"diverse_{kind}"](BINS, **size)
        self.ctc = CTC(12, size["output_size"])
        self.frontend, self.normalize, self.preencoder, self.conditions = None, None, None, conditions or {}
        for name, buffer in self.named_buffers():
            if name.endswith("updates.count"):
                buffer.fill_(2000)  # a mixing rate that is not 0


def arguments(**changes):
    given = {"task": "asr", "token_list": ["<blank>"], "frontend": "default", "frontend_conf": {}, "input_size": BINS}
    return Namespace(**given | changes)


def differences(model, path, ids=None):
    """The greatest difference of log probabilities in each of SHAPES, over positions that are no padding."""
    session, net = onnxruntime.InferenceSession(path), EncoderCTC(model.eval(), "asr")
    for lengths in SHAPES:
        features, lengths = torch.randn(len(lengths), max(lengths), BINS), torch.tensor(lengths)
        with torch.no_grad(), scope(ids, collect=False):
            expected, kept, encoded = net(features, lengths)
        given = {"features": features.numpy(), "lengths": lengths.numpy()}
        found, counts, also = session.run(None, given)
        assert counts.tolist() == kept.tolist() and also.shape == tuple(encoded.shape)
        pairs = zip(expected.numpy(), found, counts, strict=True)
        yield max(np.abs(ours[:count] - theirs[:count]).max() for ours, theirs, count in pairs)


@pytest.mark.parametrize(
    ("kind", "core"),
    [
        ("transformer", "softmax"),
        ("transformer", "sma"),
        ("transformer", "sdma"),
        ("transformer", "gated"),
        ("transformer", "sanm"),
        ("transformer", "talking_heads"),
        ("transformer", "differential"),
        ("transformer", "value_residual"),
        ("transformer", "lambda_attention"),
        ("transformer", "random_features"),
        ("transformer", "luna"),
        ("conformer", "window"),
        ("conformer", "sdma"),
        ("e_branchformer", "softmax"),
    ],
)
def test_the_graph_equals_the_model(tmp_path, kind, core):
    chosen = {"window": 4, "global_tokens": [0, 7]} if core == "window" else {}
    model = Model(kind, attention={"core": core, **chosen})
    path = export(model, arguments(), tmp_path / "new" / "model.onnx", {})
    assert not any(module.training for module in model.modules())
    assert max(differences(model, path)) < 1e-4
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.onnx", "model.tokens.txt"]


def test_a_trained_model_with_its_normalisation_and_metadata(tiny_run, tmp_path):
    model, args = load_model(tiny_run.model_dir)
    path = export(model, args, tmp_path / "model.onnx", {})
    assert max(differences(model, path)) < 1e-4
    said = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    assert json.loads(said["tokens"])[2:6] == list("abcd") and said["frontend"] == "default"
    assert json.loads(said["frontend_conf"])["n_mels"] == json.loads(said["features"]) == BINS


def test_eight_bits_are_smaller_and_near(tmp_path):
    model = Model(output_size=64, linear_units=512)
    large = export(model, arguments(), tmp_path / "model.onnx", {})
    small = export(model, arguments(), tmp_path / "int8.onnx", {}, int8=True)
    assert small.stat().st_size < large.stat().st_size
    assert 1e-4 < max(differences(model, small)) < 0.2


@pytest.mark.parametrize("scale", [1.0, 16.0])  # that of the release, and that of conf/heads
def test_a_graph_is_for_one_language(tmp_path, scale, caplog):
    names = {"lang": ["de", "el"]}
    selection = {"strategy": "group", "pool": 4, "by": "lang", "conditions": names, "logits_learning_rate_scale": scale}
    model = Model(conditions=names, attention={"core": "softmax", "selection": selection})
    with torch.no_grad():  # each language has two heads of its own
        for name, logits in model.named_parameters():
            if name.endswith("logits_lang"):
                logits.copy_(torch.tensor([[1.0, 0, -1, -2], [-2, -1, 0, 1]]))
    args = arguments()
    path = export(model, args, tmp_path / "el.onnx", {"lang": "el"})
    assert max(differences(model, path, {"lang": torch.tensor([1])})) < 1e-4
    assert min(differences(model, path, {"lang": torch.tensor([0])})) > 1e-2
    with pytest.raises(ConfigError, match="for one language or domain: .*lang.*; give it by --language, --target_lang"):
        export(model, args, tmp_path / "none.onnx", {})
    with pytest.raises(DataError, match="--language xx: unknown language; this model knows: de el"):
        export(model, args, tmp_path / "none.onnx", {"lang": "xx"})
    assert not (tmp_path / "none.onnx").exists()
    with_default = Model(
        conditions=names, attention={"core": "softmax", "selection": selection | {"default_condition": {"lang": "el"}}}
    )
    with_default.load_state_dict(model.state_dict())
    model = with_default
    export(model, args, tmp_path / "default.onnx", {"domain": "news"})
    assert caplog.messages == ["--domain news has no effect: no part of this model depends on the domain"]
    assert max(differences(model, tmp_path / "default.onnx", {"lang": torch.tensor([1])})) < 1e-4
    made = onnxruntime.InferenceSession(tmp_path / "default.onnx").get_modelmeta().custom_metadata_map["conditions"]
    assert json.loads(made) == {"lang": "el"}


@pytest.mark.parametrize("fault", ["fails", "differs"])
def test_a_graph_that_is_right_for_one_size_alone_is_refused(tmp_path, fault, monkeypatch):
    class OfOneSize(Core):
        supports = Supports(explicit_weights=True)

        def forward(self, heads):
            batch, number, time, _ = heads.v.shape
            mean = heads.v.sum(2, keepdim=True) / int(time)
            return mean.expand(int(batch) if fault == "fails" else batch, number, time, -1), None

    monkeypatch.setattr(registry, "_registered", {"of_one_size": OfOneSize})
    with pytest.raises(ModelError, match="cannot be exported to ONNX: the graph would be right for batches of one si"):
        export(Model(attention={"core": "of_one_size"}), arguments(), tmp_path / "model.onnx", {})
    assert not list(tmp_path.iterdir())


def test_unsupported_models_and_a_missing_package_are_refused(tmp_path, monkeypatch):
    def refused(model, said, **changes):
        with pytest.raises(ModelError, match=said):
            export(model, arguments(**changes), tmp_path / "model.onnx", {})

    refused(Model(), "a model of task mt without CTC over its text cannot be exported; train one with CTC", task="mt")
    streaming = Model("contextual_block_transformer")
    refused(streaming, "DiverseContextualBlockTransformerEncoder cannot be exported; transformer, conformer and")
    model = Model()
    model.preencoder = torch.nn.Linear(1, 1)
    refused(model, "a model with a preencoder cannot be exported")
    refused(Model(memory={"kind": "xl"}), "an encoder with a memory cannot be exported; the graph would hold for one")
    model = Model()
    model.encoder.interctc_layer_idx = [1]
    refused(model, r"an encoder with CTC between its layers \(interctc_layer_idx\) cannot be exported")
    lacks = "this model cannot be exported to ONNX: attention 'bigbird' draws its random blocks by operations on"
    refused(Model(attention={"core": "bigbird"}), lacks)
    short = {"core": "linformer", "compressed_length": 4, "max_length": 8}
    refused(Model(attention=short), "fails on 64 frames cannot be exported: .*at most 8 positions, and 15 are needed")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"ONNX needs onnx; install it: pip install 'espnet_diverse\[onnx\]'"):
        export(Model(), arguments(), tmp_path / "model.onnx", {})


def test_a_graph_that_the_runtime_cannot_compute_is_no_export(tmp_path, monkeypatch):
    class Failing(onnxruntime.InferenceSession):
        def run(self, *_):
            raise onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException("a shape is wrong")

    monkeypatch.setattr(onnx_export, "import_onnxruntime", lambda: SimpleNamespace(InferenceSession=Failing))
    with pytest.raises(ModelError, match=re.escape(onnx_export._WRONG)):
        export(Model(), arguments(), tmp_path / "model.onnx", {})
    assert not list(tmp_path.iterdir())
