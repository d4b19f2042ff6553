"""A core is used for nothing that it does not declare: nets refuse it by name when they are built."""

from dataclasses import fields, replace

import pytest
import torch
from espnet2.main_funcs.calculate_all_attentions import calculate_all_attentions
from references.cached import assert_cached_equals_full
from torch import nn

from espnet_diverse.attention import CORES, EVERYTHING, Core, Supports, register_core, registry
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import DECODERS, ENCODERS, LANGUAGE_MODELS
from espnet_diverse.nets.replace_attention import Attention, WeightlessAttention, replace_attention
from espnet_diverse.option_checks import OptionError
from espnet_diverse.upstream.layers import MultiHeadedAttention

SMALL = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2}
BRANCHES = {
    "output_size": 16,
    "attention_heads": 2,
    "num_blocks": 2,
    "cgmlp_linear_units": 24,
    "rel_pos_type": "latest",
}
POOL = {"strategy": "group", "pool": 4, "conditions": {"lang": ["de", "en"]}}


class Mean(Core):
    """Each query takes the mean of the values that it may attend to."""

    def forward(self, heads):
        mask = heads.mask if heads.mask is not None else heads.q.new_ones(1, 1, 1, heads.k.size(-2), dtype=torch.bool)
        weights = mask.expand(-1, -1, heads.q.size(-2), -1).to(heads.v.dtype)
        return weights @ heads.v / weights.sum(-1, keepdim=True).clamp(min=1), None


@pytest.fixture
def supporting(monkeypatch):
    """Register a core "mean" with the given support."""
    monkeypatch.setattr(registry, "_registered", {})

    def register(supports):
        register_core("mean", type("Mean", (Mean,), {"supports": supports, "__qualname__": "Mean"}))

    return register


def encoder(name="diverse_transformer", options=SMALL, **attention):
    return ENCODERS[name](20, attention={"core": "mean", **attention}, **options)


def decoder(**parts):
    return DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=2, **parts)


def language_model():
    options = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 24, "layer": 2}
    return LANGUAGE_MODELS["diverse_transformer"](11, attention={"core": "mean"}, **options)


#: Uses without which the net is refused, a net that makes them, and where it makes them.
REFUSED = {
    "transformer": (["padding"], encoder, "DiverseTransformerEncoder, self_attn of layer 1"),
    "conformer": (
        ["padding", "relative_position"],
        lambda: encoder("diverse_conformer", {**SMALL, "cnn_module_kernel": 3}),
        "DiverseConformerEncoder, self_attn of layer 1",
    ),
    "e_branchformer": (
        ["padding", "relative_position"],
        lambda: encoder("diverse_e_branchformer", BRANCHES),
        "DiverseEBranchformerEncoder, attn of layer 1",
    ),
    "block": (
        ["padding"],
        lambda: encoder("diverse_contextual_block_transformer"),
        "DiverseContextualBlockTransformerEncoder, self_attn of layer 1",
    ),
    "selection": (
        ["padding", "head_selection"],
        lambda: encoder(selection=POOL),
        "DiverseTransformerEncoder, self_attn of layer 1",
    ),
    "decoder": (
        ["padding", "causal", "cached_decoding"],
        lambda: decoder(attention={"core": "mean"}),
        "DiverseTransformerDecoder, self_attn of layer 1",
    ),
    "cross": (
        ["padding", "cached_decoding", "cross_attention"],
        lambda: decoder(cross_attention={"core": "mean"}),
        "DiverseTransformerDecoder, src_attn of layer 1",
    ),
    "lm": (
        ["padding", "causal", "cached_decoding"],
        language_model,
        "DiverseTransformerLM, self_attn of layer 1",
    ),
}
CASES = [(name, use) for name, (uses, _, _) in REFUSED.items() for use in uses]
WORDS = {
    "padding": "batches with padding",
    "relative_position": "relative position",
    "causal": "causal self-attention",
    "cached_decoding": "cached decoding",
    "cross_attention": "cross-attention",
    "head_selection": "head selection",
}


@pytest.mark.parametrize(("name", "use"), CASES, ids=[f"{name}-{use}" for name, use in CASES])
def test_an_undeclared_use_is_refused_when_the_net_is_built(supporting, name, use):
    uses, build, where = REFUSED[name]
    supporting(replace(EVERYTHING, **{use: False}))
    able = " ".join(name for name, core in CORES.items() if core.supports.missing(uses) is None)
    text = f"^{where}: attention 'mean' does not support {WORDS[use]}; choose one that does: {able}$"
    with pytest.raises(ConfigError, match=text):
        build()


@pytest.mark.parametrize("name", REFUSED)
def test_declared_uses_suffice_to_build_the_net(supporting, name):
    uses, build, _ = REFUSED[name]
    nothing = {field.name: False for field in fields(Supports) if field.type is bool}
    supporting(Supports(**(nothing | dict.fromkeys(uses, True))))
    assert isinstance(build(), nn.Module)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"causal": True}, "unknown option"),
        ({"size": 3}, "unknown option"),
        ({"core": "maen"}, "unknown attention 'maen'; did you mean 'mean'"),
        ({"core": "sdma", "n_clusters_z": 0}, "n_clusters_z must be at least 1, but is 0"),
        ({"selection": {**POOL, "pool": 3}}, "a pool of 3 does not make 2 groups"),
    ],
)
def test_an_error_names_net_and_layer(supporting, options, text):
    supporting(EVERYTHING)
    with pytest.raises(ConfigError, match=f"^DiverseTransformerEncoder, self_attn of layer 1: {text}"):
        encoder(**options)


def test_a_core_of_self_attention_alone_trains_in_an_encoder(supporting):
    supporting(Supports())
    net, speech = encoder(), torch.randn(2, 90, 20)
    out, _, _ = net(speech, torch.tensor([90, 61]))
    out.square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)
    assert net.encoders[0].self_attn.linear_v.weight.grad.abs().sum() > 0


def test_espnet_plots_the_attentions_that_have_weights(supporting):
    """ESPnet reads `attn` of every module of its type, which would be None in a core without explicit weights."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain, self.mean = ENCODERS["diverse_transformer"](20, **SMALL), encoder()

        def forward(self, speech, speech_lengths):
            return [net(speech, speech_lengths) for net in (self.plain, self.mean)]

    supporting(Supports())
    model = Model().eval()
    assert isinstance(model.plain.encoders[0].self_attn, Attention)
    assert isinstance(model.mean.encoders[0].self_attn, WeightlessAttention)
    seen = calculate_all_attentions(model, {"speech": torch.randn(1, 90, 20), "speech_lengths": torch.tensor([90])})
    assert set(seen) == {f"plain.encoders.{layer}.self_attn" for layer in range(2)}


def test_a_known_length_is_refused_when_the_net_is_built(supporting):
    supporting(Supports(max_length=41))
    text = "^DiverseContextualBlockTransformerEncoder, self_attn of layer 1: attention 'mean' supports at most 41 "
    with pytest.raises(ConfigError, match=text + "positions, and 42 are needed; shorten the input or choose another"):
        encoder("diverse_contextual_block_transformer", {**SMALL, "block_size": 40})
    supporting(Supports(max_length=42))
    encoder("diverse_contextual_block_transformer", {**SMALL, "block_size": 40})
    supporting(Supports(max_length=41))
    encoder("diverse_contextual_block_transformer", {**SMALL, "block_size": 0})  # blocks of any length


def test_an_unknown_length_is_refused_at_the_first_longer_input(supporting):
    supporting(Supports(max_length=21))
    net = encoder().eval()
    net(torch.randn(1, 90, 20), torch.tensor([90]))
    with pytest.raises(DataError, match="attention 'mean' supports at most 21 positions, and 22 are needed"):
        net(torch.randn(1, 94, 20), torch.tensor([94]))


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_attention_that_is_replaced_stays(training):
    layers = nn.ModuleList([nn.Module()])
    layers[0].self_attn = MultiHeadedAttention(2, 16, 0.1).train(training)
    replace_attention(layers, "self_attn", {"core": "sdma"})
    assert {module.training for module in layers[0].self_attn.modules()} == {training}


def test_layers_that_are_not_chosen_have_softmax():
    """The chosen layer matches a net with the attention in all layers, the other one a net with softmax."""
    patterns = {"core": "softmax", "head_patterns": [{"window": 1}, "forward"]}
    speech, lengths = torch.randn(2, 60, 20), torch.tensor([60, 44])
    nets, inputs = {}, {}
    for name, attention in (("none", None), ("all", patterns), ("second", patterns | {"layers": [2]})):
        torch.manual_seed(0)
        nets[name] = ENCODERS["diverse_transformer"](20, attention=attention, **SMALL).eval()
        nets[name].encoders[1].register_forward_pre_hook(lambda _, given, name=name: inputs.update({name: given}))
        nets[name](speech, lengths)
    assert torch.equal(inputs["second"][0], inputs["none"][0]) and not torch.equal(
        inputs["second"][0], inputs["all"][0]
    )
    expected, _ = nets["all"].encoders[1](*inputs["second"])
    assert torch.equal(nets["second"].encoders[1](*inputs["second"])[0], expected)
    assert not torch.equal(nets["none"].encoders[1](*inputs["second"])[0], expected)


@pytest.mark.parametrize("chosen", [{}, {"layers": [1, 2]}], ids=["all", "named"])
def test_each_layer_may_have_patterns_of_its_own(chosen):
    """Each layer matches a net whose layers all have its patterns."""
    first, second = [{"window": 1}, "forward"], ["global"]
    speech, lengths = torch.randn(2, 60, 20), torch.tensor([60, 44])
    nets, inputs = {}, {}
    for name, patterns in (("both", [first, second]), ("first", first), ("second", second)):
        torch.manual_seed(0)
        attention = {"core": "softmax", "head_patterns": patterns} | chosen
        nets[name] = ENCODERS["diverse_transformer"](20, attention=attention, **SMALL).eval()
        nets[name].encoders[1].register_forward_pre_hook(lambda _, given, name=name: inputs.update({name: given}))
        nets[name](speech, lengths)
    assert torch.equal(inputs["both"][0], inputs["first"][0])
    outputs = {name: net.encoders[1](*inputs["both"])[0] for name, net in nets.items()}
    assert torch.equal(outputs["both"], outputs["second"]) and not torch.equal(outputs["both"], outputs["first"])


def test_all_layers_may_be_named():
    torch.manual_seed(0)
    attention = {"core": "sdma"}
    nets = []
    for layers in (None, [2, 1]):
        torch.manual_seed(0)
        nets.append(ENCODERS["diverse_transformer"](20, attention=attention | {"layers": layers}, **SMALL).eval())
    speech, lengths = torch.randn(2, 60, 20), torch.tensor([60, 44])
    assert torch.equal(nets[0](speech, lengths)[0], nets[1](speech, lengths)[0])


def test_a_decoder_whose_layers_differ_decodes_with_a_cache():
    torch.manual_seed(0)
    window = {"core": "window", "window": 1, "layers": [2]}
    net = decoder(attention=window, cross_attention={"core": "sdma", "layers": [1]}).double().eval()
    memory, ys = torch.randn(2, 9, 16).double(), torch.randint(1, 11, (2, 6))
    assert_cached_equals_full(net, memory, ys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [3]}, r"DiverseTransformerEncoder: layers \[3\] do not exist; it has layers 1 to 2"),
        ({"layers": [0]}, r"layers must be a list of numbers of layers, from 1 on, but is \[0\]"),
        ({"layers": 1}, "layers must be a list of numbers of layers, from 1 on, but is 1"),
        ({"layers": [1], "position": "rope"}, "position applies to all layers; leave out layers"),
        ({"core": "value_residual", "layers": [1]}, "attention 'value_residual' hands a state from layer to layer"),
        ({"head_patterns": [["global"]] * 3}, "head_patterns has lists for 3 layers, but 2 have this attention; give"),
        ({"head_patterns": [["global"]] * 2, "layers": [1]}, "has lists for 2 layers, but 1 have this attention"),
        ({"head_patterns": [["global"], ["globl"]]}, "self_attn of layer 2: unknown pattern of a head 'globl'"),
        ({"head_patterns": [["global"], []]}, "self_attn of layer 2: head_patterns must be a list of patterns"),
    ],
    ids=str,
)
def test_layers_that_cannot_be_chosen_are_refused(options, message):
    with pytest.raises((ConfigError, OptionError), match=message):
        encoder(**{"core": "softmax", **options})


@pytest.mark.parametrize("section", ["attention", "memory"])
def test_a_name_in_place_of_a_mapping_is_refused(section):
    with pytest.raises(ConfigError, match=f"{section} must be a mapping of options, such as .*, but is 'cdt'"):
        ENCODERS["diverse_transformer"](20, **SMALL, **{section: "cdt"})
