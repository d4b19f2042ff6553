import pytest
import torch
import yaml
from espnet2.asr import espnet_model as asr_model
from espnet2.beats import tokenizer
from espnet2.beats.encoder import BeatsEncoder
from espnet2.beats.tokenizer import BeatsRandomTokenizer

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.models import DiverseASRModel
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.training.loop.precision import mixed_precision


def train(run, model_dir, *changes):
    """Train without anything random but the initial weights; return the exit code."""
    still = [f"{part}_conf.{name}=0.0" for part in ("encoder", "decoder") for name in ("dropout_rate",)]
    still += [f"{part}_conf.positional_dropout_rate=0.0" for part in ("encoder", "decoder")]
    changes = [*still, *changes, "encoder_conf.attention.core=softmax", "decoder_conf.attention.core=softmax"]
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(model_dir), "--allow_changed", "max_epoch"]
    return main(["train", *run.config, *run.data(), *paths, *(f"--set={change}" for change in changes)])


def figures(model_dir, epoch):
    return checkpoint.load(model_dir / "checkpoint.pth")["reporter"]["stats"][epoch]


@pytest.fixture(scope="module")
def plain(tiny_translation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    assert train(tiny_translation, folder) == 0
    return folder


def test_bfloat16_trains_like_float32_and_continues(tiny_translation, plain, tmp_path, monkeypatch):
    types = set()
    linear = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *a: types.add((y := linear(*a)).dtype) or y)
    assert train(tiny_translation, tmp_path, "use_amp=true", "max_epoch=1") == 0
    assert types == {torch.bfloat16}
    assert train(tiny_translation, tmp_path, "use_amp=true") == 0
    for epoch in (1, 2):
        ours, exact = (figures(folder, epoch)["train"] for folder in (tmp_path, plain))
        assert ours["loss"] == pytest.approx(exact["loss"], rel=0.02) and ours["loss"] != exact["loss"]
    state = checkpoint.load(tmp_path / "2epoch.pth")
    assert all(value.dtype in (torch.float32, torch.int64) for value in state.values())


def test_a_compiled_run_is_the_same_and_its_model_loads_without(tiny_translation, plain, tmp_path, monkeypatch):
    backends, compiled = [], torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda *a, **k: backends.append(k["backend"]) or compiled(*a, **k))
    assert train(tiny_translation, tmp_path, "compile=eager", "max_epoch=1") == 0
    assert backends == ["eager"] * 2  # a layer of the encoder and one of the decoder
    ours, theirs = (figures(folder, 1) for folder in (tmp_path, plain))
    for phase in ("train", "valid"):
        assert ours[phase]["loss"] == pytest.approx(theirs[phase]["loss"], rel=1e-4)
    state = checkpoint.load(tmp_path / "1epoch.pth")
    assert state.keys() == checkpoint.load(plain / "1epoch.pth").keys()
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["compile"] == "eager"
    model, _ = load_model(tmp_path, "1epoch.pth", task="mt")
    assert model.encoder.encoders[0]._compiled_call_impl is None


def test_attention_is_not_computed_by_cudnn():
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with mixed_precision(torch.nn.Linear(1, 1), "cpu"):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_features_are_extracted_in_float32():
    model = DiverseASRModel.__new__(DiverseASRModel)
    torch.nn.Module.__init__(model)
    before = asr_model.autocast
    with mixed_precision(model, "cpu"), torch.autocast("cpu", torch.bfloat16):
        x = torch.ones(2, 2)
        assert (x @ x).dtype == torch.bfloat16
        with asr_model.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert asr_model.autocast is before


def test_parts_of_a_model_extract_their_features_in_float32_too():
    """ESPnet's BEATs does, and says "cuda", or nothing, as the device, which has no effect on a CPU."""

    def preprocess(x):
        seen.append((x @ x.T).dtype)
        raise InterruptedError  # the layers behind are not here

    parts, seen = [BeatsEncoder.__new__(BeatsEncoder), BeatsRandomTokenizer.__new__(BeatsRandomTokenizer)], []
    for part in parts:
        torch.nn.Module.__init__(part)
    vars(parts[0]).update(min_input_length_at_16khz=0, preprocess=preprocess)
    x = torch.ones(2, 2)
    with mixed_precision(torch.nn.ModuleList(parts), "cpu"), torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(InterruptedError):
            parts[0].extract_features(torch.ones(2, 3, 1))
        with tokenizer.autocast(False):
            seen.append((x @ x).dtype)
        assert (x @ x).dtype == torch.bfloat16
    assert seen == [torch.float32] * 2


def test_a_gpu_without_bfloat16_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "V100")
    with (
        pytest.raises(ConfigError, match="use_amp true is not possible: V100 has no bfloat16; set use_amp=false"),
        mixed_precision(torch.nn.Linear(1, 1), "cuda"),
    ):
        pass
