"""Encoders whose layers hand on a state: Luna's packed rows go from layer to layer, and nowhere else."""

import copy

import pytest
import torch
from references.espnet_twin import OPTIONS, SMALL

from espnet_diverse.attention import Stream
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.nets.stream import connect_layers

BRANCHES = {"pos_enc_layer_type": "abs_pos", "attention_layer_type": "selfattn"}
CONVOLUTIONS = {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"}
ENCODER_CASES = {
    "diverse_transformer": {},
    "diverse_conformer": CONVOLUTIONS,
    "diverse_branchformer": BRANCHES,
    "diverse_e_branchformer": BRANCHES,
}


def build(name="diverse_transformer", contextual=True, packed_dropout=0.0, tied=True, **options):
    torch.manual_seed(0)
    luna = {"core": "luna", "length": 4, "contextual": contextual, "packed_dropout": packed_dropout, "tied": tied}
    theirs = {k: v for k, v in OPTIONS[name].items() if k != "rel_pos_type"} | {"num_blocks": 3, "dropout_rate": 0.0}
    theirs |= {"positional_dropout_rate": 0.0, "input_layer": "linear"} | ENCODER_CASES.get(name, {}) | options
    return ENCODERS[name](8, attention=luna, **theirs).double()


def inputs(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.double)


def run(net, x, lengths=None):
    return net(x, torch.tensor(lengths or [x.size(1)] * len(x)))[0]


def cores(net):
    return [layer.get_submodule(net.attribute).core for layer in net.encoders]


@pytest.mark.parametrize("contextual", [True, False])
def test_an_encoder_equals_its_layers_with_the_rows_handed_on_by_hand(contextual):
    """The layers without hooks; each is given P, and hands its new P to the next."""
    net, x = build(contextual=contextual).eval(), inputs(2, 9, 8)
    out = run(net, x, [9, 5])
    mask = (torch.arange(9) < torch.tensor([[9], [5]])).unsqueeze(1)
    y, rows, seen = net.embed(x), cores(net)[0].first(), []
    for layer in net.encoders:
        stream = Stream(mask, rows)
        y, _ = layer.forward(y, stream)
        rows = stream.state
        seen.append(rows)
    torch.testing.assert_close(out[0], net.after_norm(y)[0])
    torch.testing.assert_close(out[1, :5], net.after_norm(y)[1, :5])
    assert (seen[0].shape == (2, 4, 16)) == contextual and (seen[1] is seen[0]) != contextual
    assert seen[2] is seen[1]  # nothing comes after the last layer


def test_contextual_rows_are_layer_normalised_sums():
    net, x, packed = build().eval(), inputs(1, 9, 8), []
    layer, core = net.encoders[0], cores(net)[0]
    core.linear_packed_k.register_forward_pre_hook(lambda _, given: packed.append(given[0]))
    stream = Stream(None, core.first())
    layer.forward(net.embed(x), stream)
    total = core.first() + packed[0]
    expected = (total - total.mean(-1, keepdim=True)) / (total.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(stream.state, expected)


def rows_and_output(net, x, lengths=None):
    """P as the second and the third layer get it, and the output."""
    rows, hooks = [], []
    for core in cores(net)[1:]:
        hooks.append(core.linear_p.register_forward_pre_hook(lambda _, given: rows.append(given[0])))
    out = run(net, x, lengths)
    for hook in hooks:
        hook.remove()
    return torch.stack(rows, 1), out


def test_padding_never_enters_the_rows_and_a_batch_equals_its_samples():
    """One sample has fewer frames than P has rows."""
    net, x, lengths = build().eval(), inputs(3, 9, 8), [9, 6, 2]
    rows, out = rows_and_output(net, x, lengths)
    padded = torch.where((torch.arange(9) < torch.tensor(lengths)[:, None]).unsqueeze(-1), x, 1e3)
    torch.testing.assert_close(rows_and_output(net, padded, lengths)[0], rows)
    for b, length in enumerate(lengths):
        rows_alone, alone = rows_and_output(net, x[b : b + 1, :length])
        torch.testing.assert_close(rows_alone, rows[b : b + 1])
        torch.testing.assert_close(alone, out[b : b + 1, :length])


@pytest.mark.parametrize("name", ENCODER_CASES)
@pytest.mark.parametrize("contextual", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_state_dicts_load_strictly_and_every_parameter_is_trained(name, contextual, tied):
    """Distributed training needs a gradient for every parameter."""
    net, x = build(name, contextual, tied=tied), inputs(2, 9, 8)
    (run(net, x) * inputs(2, 9, 16)).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    other = build(name, contextual, tied=tied)
    for parameter in other.parameters():
        parameter.data.normal_()
    other.load_state_dict(net.state_dict(), strict=True)
    assert torch.equal(run(other.eval(), x), run(net.eval(), x))
    plain = ENCODERS[name](8, **OPTIONS[name] | {"num_blocks": 3, "input_layer": "linear"} | ENCODER_CASES[name])
    assert set(plain.state_dict()) <= set(net.state_dict())
    added = {key.split(".core.")[1] for key in set(net.state_dict()) - set(plain.state_dict())}
    linears = ["linear_p", "linear_packed_k", "linear_packed_v", *(["norm"] if contextual else [])]
    assert added == {"first.weight", *(f"{linear}.{part}" for linear in linears for part in ("weight", "bias"))}


def test_layers_share_the_first_rows_and_the_last_has_no_norm():
    first, second, last = cores(build())
    assert first.first is second.first is last.first
    assert first.norm is not None and second.norm is not None and last.norm is None
    assert all(core.norm is None for core in cores(build(contextual=False)))


def test_a_copy_has_its_own_rows():
    net, x = build().eval(), inputs(1, 9, 8)
    other, before = copy.deepcopy(net), run(net, x)
    cores(other)[0].first.weight.data.normal_()
    assert torch.equal(run(net, x), before) and not torch.allclose(run(other, x), before)


def test_the_loop_of_intermediate_layers_hands_on_too():
    net, x = build(interctc_layer_idx=[1], interctc_use_conditioning=False).eval(), inputs(2, 9, 8)
    with_outputs, outputs = run(net, x)
    assert [layer for layer, _ in outputs] == [1]
    torch.testing.assert_close(with_outputs, run(build().eval(), x))


def test_a_skipped_layer_hands_on_its_rows_unchanged():
    always = 1 - 1e-12
    net = build("diverse_conformer", stochastic_depth_rate=[always, 0.0, 0.0])
    rows, _ = rows_and_output(net, inputs(1, 9, 8))
    torch.testing.assert_close(rows[:, 0], cores(net)[0].first())
    assert not torch.allclose(rows[:, 1], rows[:, 0])


def test_layers_that_are_computed_again_for_their_gradients_get_the_same_rows():
    gradients = []
    for again in ([], [1, 2, 3]):
        net = build("diverse_e_branchformer", gradient_checkpoint_layers=again)
        (run(net, inputs(2, 9, 8)) * inputs(2, 9, 16)).sum().backward()
        gradients.append([parameter.grad for parameter in net.parameters()])
    torch.testing.assert_close(*gradients)
    assert cores(net)[0].first.weight.grad.abs().max() > 0.01


def test_dropout_of_packed_rows_acts_in_training_only():
    net, x = build(packed_dropout=0.9), inputs(2, 9, 8)
    assert not torch.allclose(run(net, x), run(net, x))
    torch.testing.assert_close(run(net.eval(), x), run(build().eval(), x))


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("diverse_contextual_block_transformer", {}, "attends in blocks"),
        ("diverse_contextual_block_conformer", {}, "attends in blocks"),
        ("diverse_transformer", {"layer_drop_rate": 0.1}, r"skips layers \(layer_drop_rate\)"),
        ("diverse_conformer", {"ctc_trim": True}, r"drops frames between layers \(ctc_trim\)"),
    ],
)
def test_encoders_that_do_more_between_layers_are_refused(name, options, fault):
    text = f"layers of attention 'luna' hand on a state, and this encoder {fault}; leave that out, .* contextual: false"
    with pytest.raises(ConfigError, match=text):
        build(name, **options)
    assert build(name, contextual=False, **options)


def test_layers_without_a_state_stay_as_they_are():
    net = ENCODERS["diverse_transformer"](8, **SMALL)
    connect_layers(net.encoders, "self_attn")
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in net.encoders)


def test_two_layers_learn_to_find_a_frame():
    """Every frame must tell the class of the one frame that is marked: the rows have to carry it."""
    torch.manual_seed(0)
    net, classify = build(num_blocks=2).float(), torch.nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*net.parameters(), *classify.parameters()], lr=1e-2)
    for _ in range(60):
        classes, places = torch.randint(4, (16,)), torch.randint(12, (16,))
        x = torch.randn(16, 12, 8) * 0.1
        x[torch.arange(16), places, classes] += 3.0
        x[torch.arange(16), places, 4] += 3.0
        scores = classify(run(net, x))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), classes.repeat_interleave(12))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (scores.argmax(-1) == classes.unsqueeze(1)).float().mean() > 0.95
