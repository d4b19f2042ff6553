"""Repulsion of heads against golden arrays and loops: which weights are particles, their options, noise and prior."""

import numpy as np
import pytest
import torch
from references import repulsion as oracle
from references.golden import golden
from references.placed_attentions import PATHS, Net
from torch import nn

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.particles import cosine_direction
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.training.repulsion import HeadParticles, Repulsion
from espnet_diverse.training.repulsion_options import RepulsionOptions, read_repulsion


@pytest.mark.parametrize("layout", ["separate", "joint"])
def test_particles_are_rows_of_heads_as_in_the_golden_arrays(layout):
    arrays, attention = golden("svgd_spos"), build_attention("softmax", 16, 4).double()
    joint = layout == "joint"
    for name in "qkv":
        weight = getattr(attention, f"linear_{name}").weight
        weight.data = arrays[f"joint_W{name}" if joint else "linear_W"].clone()
        weight.grad = arrays[f"joint_G{name}" if joint else "linear_grad"].clone()
    Repulsion(attention, RepulsionOptions(alpha=0.01, epsilon=0.1, layout=layout))(0)
    ours = [getattr(attention, f"linear_{name}").weight.grad for name in "qkv"]
    if joint:
        ours, expected = [torch.cat([grad.view(4, -1) for grad in ours], dim=1)], arrays["joint_newgrad"]
    else:
        expected = arrays["linear_newgrad_correct"]
        assert not torch.allclose(ours[0], arrays["linear_newgrad_official_interleaved"])
    for grad in ours:
        torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("smooth", [True, False])
def test_the_kernel_may_be_the_cosine(smooth):
    arrays, attention = golden("svgd_spos"), build_attention("softmax", 16, 4).double()
    for name in "qkv":
        weight = getattr(attention, f"linear_{name}").weight
        weight.data, weight.grad = arrays["linear_W"].clone(), arrays["linear_grad"].clone()
    heads, slopes = (arrays[name].view(4, -1) for name in ("linear_W", "linear_grad"))
    Repulsion(attention, RepulsionOptions(method="cosine", alpha=0.3, smooth=smooth))(0)
    expected = -0.1 * cosine_direction(heads, slopes, 0.3, smooth)
    torch.testing.assert_close(attention.linear_k.weight.grad.view(4, -1), expected)


@pytest.mark.parametrize("joint", [False, True])
def test_gradients_come_back_to_where_they_were(joint):
    weights = [nn.Parameter(torch.randn(6, 5)) for _ in range(2)]
    particles = HeadParticles(weights, 3, joint)
    assert particles.values().shape == ((1, 3, 20) if joint else (2, 3, 10))
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    particles.set_gradients(particles.values())
    assert all(torch.equal(weight.grad, weight) for weight in weights)


def zero_gradients(net):
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)


def grads(net):
    return {name: parameter.grad for name, parameter in net.named_parameters()}


def changed_by(net, **options):
    """Names of the modules whose projections get a gradient of repulsion alone, and of those projections."""
    zero_gradients(net)
    Repulsion(net, RepulsionOptions(**options))(0)
    names = [name.rsplit(".", 2) for name, grad in grads(net).items() if grad.any()]
    assert {parameter for *_, parameter in names} == {"weight"}
    return list(dict.fromkeys(module for module, *_ in names)), {linear for _, linear, _ in names}


@pytest.mark.parametrize(
    ("options", "modules"),
    [
        ({}, PATHS),
        ({"modules": ["encoder_self"]}, PATHS[:1]),
        ({"modules": ["decoder_self"]}, PATHS[1:2]),
        ({"modules": ["cross"]}, PATHS[2:]),
        ({"layers": "first"}, PATHS[:3]),
        ({"layers": "last", "modules": ["cross"]}, PATHS[3:]),
    ],
)
def test_the_chosen_modules_and_layers_are_repelled(options, modules):
    assert changed_by(Net(), **options) == (list(modules), {"linear_q", "linear_k", "linear_v"})


def test_the_attention_in_a_memory_is_no_attention_of_the_net():
    memory = {"kind": "cdt", "segment": 4, "slots": 2}
    net = ENCODERS["diverse_transformer"](20, 16, attention_heads=2, linear_units=8, num_blocks=2, memory=memory)
    options = read_repulsion({"method": "svgd", "modules": ["encoder_self"], "layers": "first"})
    assert list(Repulsion(nn.ModuleDict({"encoder": net}), options).particles) == ["encoder.encoders.0.self_attn"]


def test_the_attention_in_a_memory_of_the_source_is_no_attention_of_the_net():
    memory = {"kind": "cdt", "segment": 4, "slots": 2}
    net = DECODERS["diverse_transformer"](12, 16, attention_heads=2, linear_units=8, num_blocks=1, cross_memory=memory)
    options = read_repulsion({"method": "svgd", "modules": ["decoder_self"]})
    assert list(Repulsion(nn.ModuleDict({"decoder": net}), options).particles) == ["decoder.decoders.0.self_attn"]


def test_self_attention_of_a_decoder_without_causal_mask_matches_the_decoder():
    net = ENCODERS["diverse_transformer"](20, 16, attention_heads=2, linear_units=8, num_blocks=1)
    options = read_repulsion({"method": "svgd", "modules": ["decoder_self"]})
    assert list(Repulsion(nn.ModuleDict({"decoder": net}), options).particles) == ["decoder.encoders.0.self_attn"]


def test_tied_keys_and_values_are_one_weight():
    attention = build_attention("luna", 16, 2, length=3)
    assert set(attention.head_weights()) == {"q", "k"}


def test_the_chosen_projections_are_repelled_and_frozen_ones_are_not():
    assert changed_by(Net(), projections=["q", "v"])[1] == {"linear_q", "linear_v"}
    net = Net()
    net.encoders[0]["self_attn"].linear_q.requires_grad_(False)
    assert changed_by(net, modules=["encoder_self"])[1] == {"linear_k", "linear_v"}


def test_the_nets_of_espnet_have_the_places_of_these_tests():
    small = {"attention_heads": 2, "num_blocks": 2}
    branches = {"cgmlp_linear_units": 8, "cgmlp_conv_kernel": 3, "rel_pos_type": "latest", "input_layer": None}
    encoder = ENCODERS["diverse_e_branchformer"](8, output_size=16, **small, **branches)
    model = nn.ModuleDict({"encoder": encoder, "decoder": DECODERS["diverse_transformer"](5, 16, **small)})
    names = {
        "encoder_self": "encoder.encoders.{}.attn",
        "decoder_self": "decoder.decoders.{}.self_attn",
        "cross": "decoder.decoders.{}.src_attn",
    }
    for kind, name in names.items():
        found = Repulsion(model, RepulsionOptions(modules=[kind])).particles
        assert list(found) == [name.format(0), name.format(1)]


def test_the_heads_of_a_pool_repel_each_other():
    names = {"conditions": {"lang": ["de", "en"]}}
    net = Net(heads=2, selection={"strategy": "group", "pool": 6, **names})
    attention = net.encoders[0]["self_attn"]
    attention.linear_q.weight.grad = torch.randn_like(attention.linear_q.weight)
    x, grad = (t.detach().view(6, -1).numpy() for t in (attention.linear_q.weight, attention.linear_q.weight.grad))
    expected = -0.1 * oracle.svgd(x, grad, 0.01, "paper")
    Repulsion(net, RepulsionOptions(modules=["encoder_self"], projections=["q"]))(0)
    np.testing.assert_allclose(attention.linear_q.weight.grad.view(6, -1), expected, atol=1e-12)


@pytest.mark.parametrize("layout", ["separate", "joint"])
def test_the_queries_of_pooling_repel_each_other(layout):
    net = nn.ModuleDict({"pooling": SelfAttentivePooling(6, 5, heads=4).double()})
    net["pooling"](torch.randn(2, 3, 6, dtype=torch.double)).square().sum().backward()
    of_keys, weight = net["pooling"].linear_w.weight.grad.clone(), net["pooling"].linear_v.weight
    expected = -0.1 * oracle.svgd(weight.detach().numpy(), weight.grad.numpy(), 0.01, "paper")
    repulsion = Repulsion(net, RepulsionOptions(layout=layout))
    assert list(repulsion.particles) == ["pooling"]
    repulsion(0)
    np.testing.assert_allclose(weight.grad, expected, atol=1e-12)
    assert torch.equal(net["pooling"].linear_w.weight.grad, of_keys)


def test_pooling_is_one_of_the_modules_and_has_queries_alone():
    net = Net()
    net.pooling = SelfAttentivePooling(6, 5, heads=4).double()
    assert list(Repulsion(net, RepulsionOptions(modules=["cross"])).particles) == list(PATHS[2:])
    assert list(Repulsion(net, RepulsionOptions(modules=["pooling"])).particles) == ["pooling"]
    with pytest.raises(ConfigError, match=r"the model has no trained head in pooling \(all layers\)"):
        Repulsion(net, RepulsionOptions(modules=["pooling"], projections=["v"]))


def test_an_attention_that_was_not_used_stays():
    net = Net()
    zero_gradients(net.encoders)
    Repulsion(net, RepulsionOptions(method="spos"))(0)
    assert net.decoders[1]["src_attn"].linear_q.weight.grad is None
    assert net.encoders[0]["self_attn"].linear_q.weight.grad.any()


def test_noise_depends_on_seed_and_step_alone_and_has_the_deviation():
    def drawn(seed, step, other=0):
        net = Net()
        zero_gradients(net)
        torch.manual_seed(other)  # of which the noise is independent
        Repulsion(net, RepulsionOptions(method="sgld", epsilon=0.5, num_data=4), seed)(step)
        return torch.cat([grad.flatten() for name, grad in grads(net).items() if "weight" in name and grad.any()])

    first = drawn(0, 7)
    assert torch.equal(first, drawn(0, 7, other=1))
    assert not torch.equal(first, drawn(0, 8)) and not torch.equal(first, drawn(1, 7))
    assert first.std().item() == pytest.approx(0.5 * (2 / 0.5) ** 0.5 / 4, rel=0.1)


def test_noise_that_drowns_the_gradients_is_warned_of_once(caplog):
    def said(grad, **options):
        net = Net()
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, grad)
        repulsion = Repulsion(net, RepulsionOptions(**options))
        caplog.clear()
        repulsion(0)
        repulsion(1)
        return caplog.messages

    loud = {"epsilon": 0.5, "num_data": 100}  # noise of 0.02
    remedy = "(root mean squares 0.02 and 0.01); raise"
    assert said(0.01, method="spos", **loud) == [
        f"repulsion: the noise of spos is 2 times as large as the gradients of the heads {remedy} beta (1) or "
        "num_data (100)"
    ]
    assert said(0.01, method="sgld", **loud)[0].endswith(f"{remedy} num_data (100)")
    assert not said(0.03, method="spos", **loud) and not said(0.01, method="spos", beta=100.0, **loud)
    assert not said(0.01, method="svgd", **loud)


def test_the_prior_is_divided_by_the_size_of_the_data():
    net, other = Net(), Net()
    for each, sigma, number in ((net, 0.5, 16), (other, 2.0, 1)):
        zero_gradients(each)
        Repulsion(each, RepulsionOptions(prior="gaussian", sigma=sigma, num_data=number))(0)
    name = "encoders.0.self_attn.linear_q.weight"
    torch.testing.assert_close(grads(net)[name], grads(other)[name])


def test_a_model_without_heads_to_repel_is_refused():
    with pytest.raises(ConfigError, match=r"no trained head in encoder_self decoder_self cross pooling \(all layers\)"):
        Repulsion(nn.Linear(2, 2), RepulsionOptions())
    net = Net().requires_grad_(False)
    with pytest.raises(ConfigError, match=r"the model has no trained head in cross \(first layers\); choose other mod"):
        Repulsion(net, RepulsionOptions(modules=["cross"], layers="first"))
    with pytest.raises(
        ConfigError, match="repulsion: encoders.0.self_attn has one head, which nothing repels; give mo"
    ):
        Repulsion(Net(heads=1), RepulsionOptions())
    assert len(Repulsion(Net(heads=1), RepulsionOptions(method="sgld")).particles) == 4
