"""Pretrained speech encoders: reading from a folder or the cache, and refused configurations and weights."""

import json
import shutil

import huggingface_hub.constants
import pytest
import torch
from references.speech_encoders import OPTIONS, write_encoder
from safetensors.torch import load_file, save_file

from espnet_diverse.decoding.encoder.precision import set_precision
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets.frontends import pretrained_speech
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend


@pytest.fixture
def folder(tmp_path):
    made = write_encoder(tmp_path / "encoder")
    (made / "README.md").write_text("---\ntags: [x]\nlicense: apache-2.0\n---\nlicense: mit\n")
    return made


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The empty cache of a machine without network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def publish(folder, hub):
    """Put an encoder into a cache as owner/tiny."""
    version = "0" * 40
    shutil.copytree(folder, hub / "models--owner--tiny" / "snapshots" / version)
    (hub / "models--owner--tiny" / "refs").mkdir()
    (hub / "models--owner--tiny" / "refs" / "main").write_text(version)


def change(folder, file="config.json", **values):
    """Change a configuration of an encoder."""
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_name_and_licence_are_kept(folder):
    architecture = pretrained_speech.read_architecture(folder)
    assert architecture["name"] == "encoder" and architecture["license"] == "apache-2.0"
    assert pretrained_speech.checked_architecture(architecture, "x") == architecture
    (folder / "README.md").write_text("# No front matter\nlicense: mit\n")
    assert pretrained_speech.read_architecture(folder)["license"] is None


@pytest.mark.parametrize("kind", OPTIONS)
def test_it_is_built_from_its_architecture_alone(kind, tmp_path):
    architecture = pretrained_speech.read_architecture(write_encoder(tmp_path / kind, kind))
    architecture = json.loads(json.dumps(architecture))
    built, loaded = pretrained_speech.build(architecture), pretrained_speech.load(tmp_path / kind, architecture)
    assert built.state_dict().keys() == loaded.state_dict().keys()
    saved = load_file(tmp_path / kind / "model.safetensors")
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, saved[f"encoder.{name}" if kind == "whisper" else name])


@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_it_computes_in_every_precision(kind, precision, tmp_path):
    frontend = HuggingFaceFrontend(str(write_encoder(tmp_path / kind, kind))).eval()
    given = torch.randn(1, 8000, generator=torch.Generator().manual_seed(0)), torch.tensor([8000])
    with torch.inference_mode():
        expected, _ = frontend(*given)
        set_precision([frontend], precision)
        found, _ = frontend(*given)
    assert (found - expected).abs().max() < (1e-4 if precision == "float32" else 0.5)
    assert precision == "float32" or not torch.equal(found, expected)


def test_a_name_is_looked_for_in_the_cache_without_the_network(folder, hub, tmp_path):
    for name in ("owner/tiny", "hf:owner/tiny"):
        with pytest.raises(ConfigError, match=f"^{name}: no such folder, and not in the cache of the Hub"):
            pretrained_speech.read_architecture(name, offline=True)
    publish(folder, hub)
    for name in ("owner/tiny", "hf:owner/tiny"):
        architecture = pretrained_speech.read_architecture(name)
        assert architecture["name"] == "owner/tiny"
        pretrained_speech.load(name, architecture)
    shutil.move(hub, tmp_path / "moved")
    assert pretrained_speech.read_architecture("owner/tiny", str(tmp_path / "moved")) == architecture
    with pytest.raises(ModelError, match="hf:owner/tiny: cannot be fetched from the Hugging Face Hub"):
        pretrained_speech.read_architecture("hf:owner/tiny")


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "config.json: auto_map asks for code of the model"),
        ("config.json", {"trust_remote_code": True}, "config.json: trust_remote_code asks for code of the model"),
        ("config.json", {"model_type": "bert"}, "config.json: model_type 'bert' is not allowed .* are data2vec-audio"),
        ("config.json", {"hidden_size": 10**9}, "config.json: hidden_size 1000000000 is not allowed"),
        ("config.json", {"conv_dim": [16] * 33}, "config.json: conv_dim .* allowed are lists of up to 32 whole"),
        ("config.json", {"conv_dim": [16, -1, 16]}, "config.json: conv_dim"),
        ("config.json", {"conv_dim": [16]}, ".*cannot be read as a pretrained encoder"),
        ("config.json", {"hidden_act": "os.system"}, "config.json: hidden_act 'os.system' is not allowed"),
        ("config.json", {"add_adapter": True}, "config.json: add_adapter True is not allowed"),
        ("config.json", {"num_hidden_layers": 3}, "lacks .* parameters, first encoder.layers.2"),
        ("config.json", {"num_attention_heads": 3}, ".*cannot be read as a pretrained encoder"),
        ("preprocessor_config.json", {"sampling_rate": 8000}, "preprocessor_config.json: sampling_rate 8000 is not a"),
        ("preprocessor_config.json", {"feature_size": 10**9}, "preprocessor_config.json: feature_size 1000000000"),
    ],
)
def test_invalid_configurations_are_refused_in_one_line(file, values, said, folder):
    change(folder, file, **values)
    with pytest.raises(ConfigError, match=said) as caught:
        pretrained_speech.load(folder, pretrained_speech.read_architecture(folder))
    assert "\n" not in str(caught.value)


def test_an_encoder_far_larger_than_its_weights_is_not_built(folder):
    change(folder, hidden_size=20_000, num_attention_heads=2)
    with pytest.raises(ModelError, match="far larger model than these weights"):
        pretrained_speech.load(folder, pretrained_speech.read_architecture(folder))


def test_weights_that_are_missing_or_no_safetensors_are_refused(folder):
    architecture = pretrained_speech.read_architecture(folder)
    weights = folder / "model.safetensors"
    state = load_file(weights)
    save_file({name: value for name, value in state.items() if "layers.1.attention" not in name}, weights)
    with pytest.raises(ConfigError, match=r"model.safetensors lacks 8 parameters, first encoder.layers.1.attention"):
        pretrained_speech.load(folder, architecture)
    weights.write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="cannot be read as a pretrained encoder"):
        pretrained_speech.load(folder, architecture)
    weights.unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="no model.safetensors.*; give a folder with config.json, preprocessor_con"):
        pretrained_speech.load(folder, architecture)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ConfigError, match="preprocessor_config.json: cannot be read"):
        pretrained_speech.read_architecture(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a["encoder"].update(auto_map={"AutoModel": "evil.Model"}), "a.encoder: option 'auto_map', .* not"),
        (lambda a: a["encoder"].update(trust_remote_code=True), "a.encoder: option 'trust_remote_code', True, is not"),
        (
            lambda a: a["encoder"].update(_attn_implementation="owner/kernel"),
            "a.encoder: option '_attn_implementation'",
        ),
        (lambda a: a["encoder"].update(hidden_size=10**7), "a.encoder: hidden_size 10000000 is not allowed"),
        (lambda a: a["encoder"].update(num_hidden_layers=10**6), "a.encoder: num_hidden_layers 1000000 is not"),
        (lambda a: a["encoder"].update(model_type="bert"), "a.encoder: model_type 'bert' is not allowed"),
        (lambda a: a["processor"].update(tokenizer="evil/x"), "a.processor: option 'tokenizer', 'evil/x', is not"),
        (lambda a: a["processor"].update(n_fft=10**9), "a.processor: n_fft 1000000000 is not allowed"),
        (lambda a: a.update(code="x"), "a: code is 'x'; an architecture has name license encoder processor"),
        (lambda a: a.update(encoder="x"), "a: encoder is 'x'; an architecture"),
        (lambda a: a.pop("processor"), "a: processor is missing; an architecture"),
        (lambda a: a.update(name=["x"]), r"a: name is \['x'\]; an architecture"),
    ],
)
def test_an_architecture_of_a_trained_model_has_nothing_else(change, said, folder):
    architecture = pretrained_speech.read_architecture(folder)
    change(architecture)
    with pytest.raises(ConfigError, match=f"^{said}"):
        pretrained_speech.checked_architecture(architecture, "a")


def test_nothing_but_a_mapping_is_an_architecture():
    with pytest.raises(ConfigError, match="^a: encoder is missing"):
        pretrained_speech.checked_architecture("x", "a")
