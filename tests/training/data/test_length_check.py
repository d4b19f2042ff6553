"""Utterances that are longer than a core supports are found before the first step."""

from dataclasses import replace

import pytest
import torch

from espnet_diverse.attention import EVERYTHING, MultiHeadAttention, build_attention, register_core, registry
from espnet_diverse.attention.cores.sdma import SDMA
from espnet_diverse.bin.main import main
from espnet_diverse.errors import DataError
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.training.data.length_check import ShapeFile, check_lengths, length_limits


def train(run, model_dir, *changes):
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(model_dir)]
    return main(["train", *run.config, *run.data(), *paths, *(f"--set={change}" for change in changes)])


def longest(path):
    shapes = [line.split() for line in path.read_text().splitlines()]
    return max(((name, int(shape.split(",")[0])) for name, shape in shapes), key=lambda pair: pair[1])


def test_training_names_the_utterance_and_the_attention_before_the_first_step(tiny_run, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    register_core("limited", type("Limited", (SDMA,), {"supports": replace(SDMA.supports, max_length=10)}))
    assert train(tiny_run, tmp_path / "exp", "encoder_conf.attention.core=limited") == 1
    shapes = tiny_run.stats_dir / "train" / "speech_shape"
    error = capfd.readouterr().err.splitlines()[-1]
    where = f"{shapes.parent}: utterance {longest(shapes)[0]!r}: encoder.encoders.0.self_attn: "
    assert where + "attention 'limited' supports at most 10 positions, and " in error
    assert not list((tmp_path / "exp").glob("*.pth"))


@pytest.fixture
def translator(tiny_translation):
    model, _ = load_model(tiny_translation.model_dir, task="mt")
    folder = tiny_translation.stats_dir / "train"
    files = [ShapeFile(folder / f"{name}_shape.char", name, False) for name in ("text", "src_text")]
    return model, [files]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("encoder.encoders.0.self_attn", "src_text"),
        ("decoder.decoders.0.self_attn", "text"),
        ("decoder.decoders.0.src_attn", "text"),  # the longest source is shorter than the longest target
    ],
)
def test_lengths_up_to_the_limit_pass(translator, name, shapes):
    model, phases = translator
    attention = model.get_submodule(name)
    path = next(file.path for file in phases[0] if file.name == shapes)
    utterance, length = longest(path)
    modes = [module.training for module in model.modules()]
    attention.core.supports = replace(EVERYTHING, max_length=length + 1)  # with <sos>
    assert length_limits(model) == {name: length + 1}
    check_lengths(model, phases)
    attention.core.supports = replace(EVERYTHING, max_length=length)
    text = f"/train: utterance '{utterance}': {name}: attention '{attention.core.name}' supports at most"
    with pytest.raises(DataError, match=f"{text} {length} positions, and {length + 1} are needed"):
        check_lengths(model, phases)
    assert [module.training for module in model.modules()] == modes
    assert not attention._forward_pre_hooks


def test_a_model_without_limits_reads_no_file(tmp_path):
    model = build_attention("sdma", 8, 2)
    assert isinstance(model, MultiHeadAttention) and length_limits(model) == {}
    check_lengths(model, [[ShapeFile(tmp_path / "missing", "text", False)]])


def test_a_model_with_conditions_gets_the_first_value_of_each(tmp_path):
    class Model(torch.nn.Module):
        conditions = {"lang": ["de", "en"]}

        def __init__(self):
            super().__init__()
            self.attention = build_attention("softmax", 8, 2)
            self.attention.core.supports = replace(EVERYTHING, max_length=100)

        def forward(self, speech, speech_lengths, lang):
            self.given = speech.shape, speech_lengths.tolist(), lang.tolist()

    (tmp_path / "speech_shape").write_text("a 300\nb 4000\n")
    model = Model()
    check_lengths(model, [[ShapeFile(tmp_path / "speech_shape", "speech", True)]])
    assert model.given == ((1, 4000), [4000], [[0]])
    (tmp_path / "speech_shape").write_text("a 300,80\nb 40,80\n")  # of features
    check_lengths(model, [[ShapeFile(tmp_path / "speech_shape", "speech", True)]])
    assert model.given == ((1, 300, 80), [300], [[0]])
