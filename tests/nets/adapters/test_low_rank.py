"""Adapters of low rank: loralib's, and by condition a loop over samples with matrices of their own."""

import copy

import pytest
import torch
from references.cached import assert_cached_equals_full
from torch import nn

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.adapters.low_rank import (
    LowRank,
    LowRankLinear,
    LowRankOptions,
    adapted,
    add_low_rank,
    merge_low_rank,
)
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

LANGUAGES = {"by": "lang", "conditions": {"lang": ["ar", "de", "el"]}}
SMALL = {"output_size": 16, "attention_heads": 2, "num_blocks": 2}
ENCODER_OPTIONS = {
    "diverse_transformer": SMALL | {"linear_units": 24},
    "diverse_conformer": SMALL | {"linear_units": 24, "cnn_module_kernel": 3, "rel_pos_type": "latest"},
    "diverse_e_branchformer": SMALL | {"cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3, "rel_pos_type": "latest"},
}
EVERYWHERE = ["linear_q", "linear_k", "linear_v", "linear_out", "encoders.*.w_?", "embed.out"]
SPEECH, LENGTHS = torch.randn(3, 90, 20, dtype=torch.double), torch.tensor([90, 90, 90])


def options(targets=("linear_q", "linear_v"), **given):
    return LowRankOptions(**{"rank": 2, "alpha": 4, "target_modules": list(targets), **given})


def encoder(name="diverse_transformer", chosen=None, **given):
    torch.manual_seed(0)
    net = ENCODERS[name](20, **ENCODER_OPTIONS[name], **given).double().eval()
    if chosen is not None:
        add_low_rank(net, chosen)
    return net


def disturb(net):
    """Draw the matrices B, which are zero at first; merged weights would not know of it."""
    mode = net.training
    net.train()
    torch.manual_seed(1)
    for _, module in adapted(net):
        nn.init.normal_(module.lora_B, std=0.5)
    return net.train(mode)


def languages(*ids):
    return scope(conditions={"lang": torch.tensor(ids)}, collect=False)


def out(net, speech=SPEECH):
    return net(speech, LENGTHS[: len(speech)])[0]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_one_pair_for_all_equals_loralib(dropout):
    """Parameters, outputs in both modes, and the form that is saved."""
    pytest.importorskip("loralib")
    from espnet2.layers.create_adapter import create_adapter

    ours, theirs = encoder(), encoder()
    add_low_rank(ours, options(dropout_rate=dropout))
    given = {"rank": 2, "alpha": 4, "target_modules": ["linear_q", "linear_v"], "dropout_rate": dropout}
    create_adapter(theirs, "lora", given)
    theirs.double()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for net in (ours, theirs):
        net.train()
    state = {name: torch.randn_like(value) for name, value in theirs.state_dict().items()}
    for net in (ours, theirs):
        net.load_state_dict(state)
    torch.testing.assert_close(*(torch.manual_seed(2) and out(net) for net in (ours, theirs)))  # with the same dropout
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    torch.testing.assert_close(out(ours), out(theirs))


def test_embeddings_match_loralib():
    loralib = pytest.importorskip("loralib")
    net = nn.Sequential(nn.Embedding(7, 4))
    add_low_rank(net, options(["0"]))
    theirs = loralib.Embedding(7, 4, r=2, lora_alpha=4)
    assert net[0].lora_A.abs().max() == 0 < net[0].lora_B.abs().max()
    net.train()
    with torch.no_grad():
        net[0].lora_A.normal_()
    theirs.load_state_dict(net[0].state_dict())
    tokens = torch.tensor([[0, 6, 3]])
    torch.testing.assert_close(net(tokens), theirs(tokens))
    theirs.eval()
    torch.testing.assert_close(net.eval()[0].weight, theirs.weight)
    torch.testing.assert_close(net(tokens), theirs(tokens))
    merge_low_rank(net)
    assert type(net[0]) is nn.Embedding
    torch.testing.assert_close(net(tokens), theirs(tokens))


@pytest.mark.parametrize("by", [{}, LANGUAGES, {"use_dora": True}, LANGUAGES | {"use_dora": True}])
@pytest.mark.parametrize("name", ENCODER_OPTIONS)
def test_new_adapters_change_nothing(name, by):
    exact = {} if "use_dora" in by else {"rtol": 0, "atol": 0}
    base, net = encoder(name), encoder(name, options(EVERYWHERE, **by))
    assert len(list(adapted(net))) > 8
    with languages(2, 0, 2):
        torch.testing.assert_close(out(net), out(base), **exact)
        net.train(), base.train()
        for module in (*net.modules(), *base.modules()):
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        torch.testing.assert_close(out(net), out(base), **exact)


@pytest.mark.parametrize("shape", [(4, 5), (4, 6, 5), (4, 2, 6, 5)], ids=str)
def test_each_sample_has_the_matrices_of_its_language(shape):
    torch.manual_seed(0)
    linear = nn.Linear(5, 3).double()
    adapter = LowRankLinear(linear, options(**LANGUAGES))
    nn.init.normal_(adapter.lora_B)
    x = torch.randn(shape, dtype=torch.double)
    with languages(2, 0, 2, 1):
        found = adapter(x)
    for row, language in enumerate((2, 0, 2, 1)):
        weight = linear.weight + 4 / 2 * adapter.lora_B[language] @ adapter.lora_A[language]
        torch.testing.assert_close(found[row], x[row] @ weight.T + linear.bias)


def test_magnitudes_scale_the_weights_of_each_language():
    torch.manual_seed(0)
    linear = nn.Linear(5, 3).double()
    adapter = LowRankLinear(linear, options(use_dora=True, **LANGUAGES))
    torch.testing.assert_close(adapter.lora_magnitude[1], linear.weight.norm(dim=1))
    nn.init.normal_(adapter.lora_B), nn.init.uniform_(adapter.lora_magnitude)
    x = torch.randn(4, 6, 5, dtype=torch.double)
    with languages(2, 0, 2, 1):
        found = adapter(x)
    for row, language in enumerate((2, 0, 2, 1)):
        weight = linear.weight + 4 / 2 * adapter.lora_B[language] @ adapter.lora_A[language]
        rows = [m * w / w.norm() for m, w in zip(adapter.lora_magnitude[language], weight, strict=True)]
        torch.testing.assert_close(found[row], x[row] @ torch.stack(rows).T + linear.bias)


def test_the_length_of_the_weights_is_a_constant_in_the_gradient():
    """Equation 11 of the DoRA paper: that of the direction is m / |W| times the gradient of the weight."""
    torch.manual_seed(0)
    linear = nn.Linear(5, 3, bias=False).double()
    adapter = LowRankLinear(linear, options(use_dora=True))
    nn.init.normal_(adapter.lora_B)
    x = torch.randn(2, 6, 5, dtype=torch.double)
    adapter(x).square().sum().backward()
    weight = linear.weight.detach() + 4 / 2 * (adapter.lora_B @ adapter.lora_A).detach()
    scale = (adapter.lora_magnitude.detach() / weight.norm(dim=1)).unsqueeze(1)
    moved = weight.clone().requires_grad_()
    (x @ (scale * moved).T).square().sum().backward()
    torch.testing.assert_close(adapter.lora_B.grad, 4 / 2 * moved.grad @ adapter.lora_A.detach().T)
    torch.testing.assert_close(adapter.lora_A.grad, 4 / 2 * adapter.lora_B.detach().T @ moved.grad)


def test_magnitudes_stay_apart_from_the_weight_until_they_are_merged():
    net = disturb(encoder(chosen=options(EVERYWHERE, use_dora=True)))
    expected, names = out(net), net.state_dict().keys()
    torch.testing.assert_close(out(net.train().eval()), expected, rtol=0, atol=0)
    assert any(name.endswith("lora_magnitude") for name in names)
    merge_low_rank(net, by_condition=False)
    torch.testing.assert_close(out(net), expected)
    assert net.state_dict().keys() == encoder().state_dict().keys()


def test_gradients():
    adapter = LowRankLinear(nn.Linear(4, 3).double(), options(**LANGUAGES))
    nn.init.normal_(adapter.lora_B)
    with languages(2, 0, 2):
        x = torch.randn(3, 2, 4, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, *_: adapter(x), (x, *adapter.parameters()))


@pytest.mark.parametrize("use_dora", [False, True])
@pytest.mark.parametrize("name", ENCODER_OPTIONS)
def test_a_batch_of_mixed_languages_equals_its_samples_alone_and_merged(name, use_dora):
    net = disturb(encoder(name, options(EVERYWHERE, use_dora=use_dora, **LANGUAGES)))
    with languages(2, 0, 2):
        batch = out(net)
    for row, language in enumerate((2, 0, 2)):
        merged = copy.deepcopy(net)
        with languages(language):
            torch.testing.assert_close(out(net, SPEECH[row : row + 1])[0], batch[row])
            merge_low_rank(merged)
        assert not list(adapted(merged)) and merged.state_dict().keys() == encoder(name).state_dict().keys()
        torch.testing.assert_close(out(merged, SPEECH[row : row + 1])[0], batch[row])
    with languages(1):
        assert not torch.allclose(out(net)[0], batch[0])


def test_one_pair_for_all_is_merged():
    net = disturb(encoder(chosen=options(EVERYWHERE)))
    expected, merged = out(net), copy.deepcopy(net)
    merge_low_rank(merged, by_condition=False)
    assert torch.equal(out(merged), expected) and not torch.allclose(expected, out(encoder()))
    training = copy.deepcopy(net).train()
    merge_low_rank(training)  # with the product apart from the weight
    torch.testing.assert_close(out(training.eval()), expected)


def test_pairs_by_condition_stay_without_one():
    net = encoder(chosen=options(**LANGUAGES))
    merge_low_rank(net, by_condition=False)
    assert len(list(adapted(net))) == 4
    with pytest.raises(DataError, match=r"adapter_conf: the lang of each sample is needed .*; known: ar, de, el"):
        out(net)
    with scope(), pytest.raises(DataError):
        merge_low_rank(net)


def test_cached_decoding_equals_the_full_pass():
    torch.manual_seed(0)
    net = DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=2).double().eval()
    add_low_rank(net, options(["linear_q", "linear_v", "w_1", "output_layer"], **LANGUAGES))
    disturb(net)
    memory, ys = torch.randn(3, 13, 16, dtype=torch.double), torch.randint(1, 11, (3, 6))
    with languages(2, 0, 2):
        assert_cached_equals_full(net, memory, ys)


def test_training_moves_the_matrices_of_the_languages_that_are_there():
    net = encoder(chosen=options(**LANGUAGES)).train()
    with languages(2, 0, 2):
        out(net).square().sum().backward()
    (_, module), *_ = adapted(net)
    assert [float(grad.abs().max()) > 0 for grad in module.lora_B.grad] == [True, False, True]


@pytest.mark.parametrize(
    ("given", "made", "said"),
    [
        (
            {"targets": ["linear_x"]},
            {},
            r"target_modules \[linear_x\]: the model has no such module; it .*w_1",
        ),
        ({"targets": ["norm1"]}, {}, "norm1 is a LayerNorm, and adapters are for Linear and Embedding; choose other"),
        (
            {},
            {"attention": {"core": "softmax", "disagreement": {"of": "parameters"}}},
            "self_attn.linear_q is of an attention whose disagreement compares the weights of its projections",
        ),
        (
            LANGUAGES,
            {"memory": {"kind": "xl"}},
            "is a map of segments or blocks, whose batch",
        ),
        (
            {"targets": ["linear_p"], **LANGUAGES},
            {"attention": {"core": "luna", "length": 4}},
            "linear_p is a map of positions or tokens, which do not belong to samples",
        ),
        ({}, {"attention": {"core": "luna", "tied": True}}, "self_attn.linear_q is of an attention 'luna' with tied"),
        (
            {},
            {
                "attention": {
                    "core": "softmax",
                    "selection": {"strategy": "group", "pool": 4, "by": ["lang"], "conditions": {"lang": ["de", "en"]}},
                }
            },
            "is of an attention with head selection, whose projections take no adapter",
        ),
    ],
)
def test_modules_that_take_no_adapter_are_named(given, made, said):
    with pytest.raises(ConfigError, match=said):
        encoder(chosen=options(**given), **made)


def test_positions_have_no_language():
    with pytest.raises(ConfigError, match="linear_pos is a map of positions or tokens, .* cannot depend on conditions"):
        encoder("diverse_conformer", options(["linear_pos"], **LANGUAGES))
    assert isinstance(encoder("diverse_conformer", options(["linear_pos"])).encoders[0].self_attn.linear_pos, LowRank)


@pytest.mark.parametrize(
    ("name", "module", "said"),
    [
        ("linear_w", SelfAttentivePooling(4, 3, 2), "pool.linear_w is of a SelfAttentivePooling, which reads"),
        ("pool", nn.Embedding(5, 4), "pool is an Embedding, whose rows have no magnitudes .use_dora."),
    ],
)
def test_maps_whose_weight_is_read_or_has_no_magnitudes_are_named(name, module, said):
    with pytest.raises(ConfigError, match=said):
        add_low_rank(nn.ModuleDict({"pool": module}), options([name], use_dora=True))


def test_a_map_that_shares_its_weight_is_named():
    net = nn.ModuleDict({"embed": nn.Embedding(5, 4), "out": nn.Linear(4, 5)})
    net["out"].weight = net["embed"].weight
    with pytest.raises(ConfigError, match=r"out is a map that shares its weight with embed\.weight"):
        add_low_rank(net, options(["out"]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rank": 0}, "rank must be at least 1, but is 0"),
        ({"alpha": "2"}, "alpha must be a whole number, but is '2'"),
        ({"dropout_rate": 1}, "dropout_rate must be at least 0 and below 1, but is 1"),
        ({"targets": []}, r"target_modules must be a list of names of modules, such as \[linear_q, linear_v\]"),
        ({"bias_type": "some"}, "bias_type must be one of none all lora_only"),
    ],
)
def test_wrong_options_are_refused(given, said):
    with pytest.raises(OptionError, match=said):
        options(**given)


def test_magnitudes_of_rows_of_zero_change_nothing():
    net, x = nn.ModuleDict({"a": build_attention("gated", 16, 4, start="zero", scale=2.0)}), torch.randn(1, 5, 16)
    before = net["a"](x, x, x, None)
    add_low_rank(net, LowRankOptions(rank=2, use_dora=True, target_modules=["gate"]))
    torch.testing.assert_close(net.train()["a"](x, x, x, None), before)
    net["a"](x, x, x, None).sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in net.parameters())
