"""Linear maps of fewer bits, and compiled layers, against full precision."""

import copy

import pytest
import torch
from torch import nn

from espnet_diverse.attention import CORES, build_attention
from espnet_diverse.bin.main import main
from espnet_diverse.cpu.fast_linear import FastLinear
from espnet_diverse.decoding import predictor
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.encoder.precision import HalfLinear, Int8Linear, check_precision, set_precision
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.compilation import compile_layers

CLASSES = {"float32": FastLinear, "int8": Int8Linear, "bfloat16": HalfLinear}


@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-5), ("int8", 0.03), ("bfloat16", 0.01)])
def test_results_are_near_full_precision(precision, bound):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 8, bias=False)).eval()
    before = copy.deepcopy(model)
    set_precision([model], precision)
    assert isinstance(model[0], CLASSES[precision]) and isinstance(model[2], CLASSES[precision])
    for shape in ((1, 64), (5, 7, 64), (3, 200, 64)):
        x = torch.randn(shape)
        with torch.inference_mode():
            y, expected = model(x), before(x)
        assert y.dtype == torch.float32 and y.shape == expected.shape
        error = float((y - expected).abs().max() / expected.abs().max())
        assert error < bound and (error > 0 or precision == "float32")


def test_weights_of_8_bits_have_a_scale_for_each_output():
    model = nn.Sequential(nn.Linear(64, 3, bias=False))
    model[0].weight.data[1] *= 100
    expected = model[0].weight.detach().clone()
    set_precision([model], "int8")
    weight, _ = torch.ops.quantized.linear_unpack(model[0].packed)
    assert weight.element_size() == 1 and weight.qscheme() == torch.per_channel_affine
    steps = expected.abs().amax(1, keepdim=True) / 127
    assert bool(((weight.dequantize() - expected).abs() <= 0.51 * steps).all())


def test_a_row_of_8_bits_does_not_depend_on_the_others():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 40))
    expected, x = copy.deepcopy(model), torch.randn(9, 64)
    x[4] *= 1000
    set_precision([model], "int8")
    with torch.inference_mode():
        together, alone = model(x), torch.cat([model(row) for row in x.split(1)])
        assert torch.equal(together, alone)
        errors = (together - expected(x)).abs().amax(1) / expected(x).abs().amax(1)
    assert errors.max() < 0.03


@pytest.mark.parametrize("engine", torch.backends.quantized.supported_engines)
def test_8_bits_with_the_kernels_of_other_cpus(engine, monkeypatch):
    if engine == "none":
        return
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 40))
        expected, x = copy.deepcopy(model), torch.randn(9, 64)
        x[4] *= 1000
        set_precision([model], "int8")
        with torch.inference_mode():
            errors = (model(x) - expected(x)).abs().amax(1) / expected(x).abs().amax(1)
    finally:
        torch.backends.quantized.engine = before
    assert errors.max() < 0.04


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_projections_of_selected_heads_stay_as_they_are_and_a_warning_says_so(precision, caplog):
    selection = {"strategy": "static", "pool": 4, "conditions": {"lang": ["ar", "de"]}}
    model = nn.Sequential(build_attention("softmax", 16, 2, selection=selection), build_attention("softmax", 16, 2))
    set_precision([model], precision)
    assert type(model[0].linear_q) is nn.Linear and type(model[0].linear_out) is CLASSES[precision]
    assert type(model[1].linear_q) is CLASSES[precision]
    said = f"precision {precision}: projections of attention with head selection stay in float32"
    assert caplog.messages == [said]
    set_precision([nn.Sequential(build_attention("softmax", 16, 2))], precision)
    set_precision([build_attention("softmax", 16, 2, selection=selection)], "float32")
    assert caplog.messages == [said]


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("core", [name for name, core in CORES.items() if core.supports.cached_decoding])
def test_every_core_decodes_with_fewer_bits(core, precision):
    torch.manual_seed(0)
    module, x = build_attention(core, 16, 2, causal=True).eval(), torch.randn(1, 5, 16)

    def decoded():
        q, cache = module.project_qkv(x)
        return module.attend_cached(q, x, cache, torch.ones(1, 5, 5, dtype=torch.bool).tril())

    with torch.inference_mode():
        expected = decoded()
        set_precision([module], precision)
        torch.testing.assert_close(decoded(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("precision", "bound"), [("int8", 0.1), ("bfloat16", 0.03)])
@pytest.mark.parametrize("search", ["batched", "greedy"])
def test_a_model_is_searched_in_any_precision(tiny_run, tmp_path, precision, bound, search):
    options = SearchOptions(beam_size=4, ctc_weight=0.4, search=search)
    exact = load_predictor(tiny_run.model_dir, options=options)
    rough = load_predictor(tiny_run.model_dir, options=options, precision=precision)
    if search == "batched":
        assert type(rough.search.scorers[0].attention[0].joint) is CLASSES[precision]
    expected = decode(exact, tiny_run.test_dir, tmp_path / "exact")
    for one, other in zip(decode(rough, tiny_run.test_dir, tmp_path / "rough"), expected, strict=True):
        assert one.failure is None and one.score == pytest.approx(other.score, rel=bound) and one.score != other.score


def test_a_translation_model_is_searched_in_8_bits(tiny_translation, tmp_path):
    rough = load_predictor(tiny_translation.model_dir, options=SearchOptions(beam_size=3), precision="int8")
    expected = decode(
        load_predictor(tiny_translation.model_dir, options=SearchOptions(beam_size=3)),
        *(tiny_translation.test_dir, tmp_path / "exact"),
    )
    for one, other in zip(decode(rough, tiny_translation.test_dir, tmp_path / "rough"), expected, strict=True):
        assert one.score == pytest.approx(other.score, rel=0.1) and one.score != other.score


@pytest.mark.parametrize(
    ("precision", "device", "compiled", "said"),
    [
        ("int4", "cpu", False, "precision 'int4' is unknown; known: float32 int8 bfloat16"),
        ("int8", "cuda", False, "precision int8 is not possible on cuda; use bfloat16 there, or device cpu"),
        ("int8", "cpu", True, "compile with precision int8 is not possible on a CPU; leave one of them out"),
    ],
)
def test_an_impossible_precision_is_refused(precision, device, compiled, said):
    with pytest.raises(ConfigError, match=said):
        check_precision(precision, device, compiled)


def test_compiled_layers_give_the_same(tiny_run, tmp_path, monkeypatch):
    compiled = []

    def compile_quickly(encoder, backend):  # traced like PyTorch's own backend, without the minute of its compiler
        compiled.append(backend)
        compile_layers(encoder, "aot_eager")

    monkeypatch.setattr(predictor, "compile_layers", compile_quickly)
    options = SearchOptions(beam_size=3, ctc_weight=0.4)
    expected = decode(load_predictor(tiny_run.model_dir, options=options), tiny_run.test_dir, tmp_path / "plain")
    search = load_predictor(tiny_run.model_dir, options=options, compiled=True)
    for one, other in zip(decode(search, tiny_run.test_dir, tmp_path / "compiled"), expected, strict=True):
        assert one.text == other.text and one.score == pytest.approx(other.score, abs=1e-3)
    assert compiled == [True]


def test_without_a_compiler_nothing_is_compiled(tiny_run, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"compile is not possible: there is no C\+\+ compiler no-such-compiler"):
        load_predictor(tiny_run.model_dir, compiled=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "int8", "--set", "search=espnet"], "search=espnet supports neither --precision nor --compile"),
        (["--compile", "--nj", "2"], "--compile and --nj 2 cannot be combined; give one of them"),
    ],
)
def test_the_command_refuses_incompatible_options(tiny_run, tmp_path, capsys, options, said):
    paths = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    assert main(["decode", str(tiny_run.model_dir), *paths, *options]) == 1
    assert said in capsys.readouterr().err


def test_the_command_decodes_in_8_bits(tiny_run, tmp_path):
    paths = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "command")]
    options = ["--precision", "int8", "--set", "beam_size=2"]
    assert main(["decode", str(tiny_run.model_dir), *paths, *options]) == 0
    search = load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=2), precision="int8")
    decode(search, tiny_run.test_dir, tmp_path / "function")
    scores = [(tmp_path / name / "score").read_text() for name in ("command", "function")]
    assert scores[0] == scores[1] != ""


@pytest.mark.parametrize("precision", CLASSES)
@pytest.mark.parametrize(
    "part", [{"drop_heads": {}}, {"relaxed": {}}, {"routing": {}}, {"dex": {}}, {"head_patterns": ["previous", "next"]}]
)
def test_parts_of_an_attention_work_in_every_precision(part, precision):
    torch.manual_seed(0)
    net = nn.ModuleList([build_attention("softmax", 64, 4, **part)]).eval()
    x, mask = torch.randn(2, 7, 64), torch.arange(7) < torch.tensor([[[7]], [[4]]])
    with torch.inference_mode():
        expected = net[0](x, x, x, mask)
        set_precision([net], precision)
        torch.testing.assert_close(net[0](x, x, x, mask), expected, rtol=0.05, atol=0.05)
