"""Value residual: layers against loops, encoders against layers by hand, gradients, padding, and its softmax start."""

import pytest
import torch
from references.core_inputs import MASKS, SIZE, D, H, draw, heads, sequences, whole_position
from references.espnet_twin import LEGACY, OPTIONS
from references.sdma import attention

from espnet_diverse.attention import Stream, build_attention, build_core
from espnet_diverse.attention.cores.value_residual import ValueResidual
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS

WHOLE = ("diverse_transformer", "diverse_conformer", "diverse_branchformer", "diverse_e_branchformer")
CASES = {name: (name, OPTIONS[name]) for name in WHOLE} | {"legacy": ("diverse_conformer", LEGACY)}
LENGTHS = [9, 5]


def encoder(case="diverse_transformer", attention=None, **options):
    name, theirs = CASES.get(case, (case, OPTIONS.get(case)))
    torch.manual_seed(0)
    sizes = {"num_blocks": 3, "dropout_rate": 0.0, "positional_dropout_rate": 0.0, "input_layer": "linear"}
    attention = {"core": "value_residual"} | (attention or {})
    return ENCODERS[name](8, attention=attention, **theirs | sizes | options).double()


def run(net, x, lengths=None):
    return net(x, torch.tensor(lengths or [x.size(1)] * len(x)))[0]


def cores(net):
    return [layer.get_submodule(net.attribute).core for layer in net.encoders]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "causal"])
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_two_layers_equal_loops(learned, mask, relative):
    first, second = (
        build_core("value_residual", SIZE, H, {"first": 0.25, "own": -2.0, "learned": learned}).double()
        for _ in range(2)
    )
    assert first.connect([first, second])
    given = whole_position(heads(MASKS[mask], relative=relative, need_weights=True))
    given.stream = Stream(None)
    below = first(given)[0]
    v_1 = given.v
    given.v = draw(*v_1.shape, seed=8)
    above, weights = second(given)
    for b, q, k, v, seen, term in sequences(given):
        n = q.shape[1]
        for h in range(H):
            expected = attention(q[h], k[h], seen[h], bias=term[h] / D**0.5)
            torch.testing.assert_close(weights[b, h, :n, :n], torch.tensor(expected))
            old = v_1[b, h, :n].numpy()
            torch.testing.assert_close(below[b, h, :n], torch.tensor(expected @ old))
            torch.testing.assert_close(above[b, h, :n], torch.tensor(expected @ (0.25 * old - 2 * v[h])))


@pytest.mark.parametrize("learned", [False, True])
def test_an_encoder_equals_its_layers_with_the_values_handed_on_by_hand(learned):
    """The layers without hooks; the values of the first are given to all others."""
    net, x = encoder(attention={"learned": learned}).eval(), draw(2, 9, 8)
    out, mask = run(net, x, LENGTHS), (torch.arange(9) < torch.tensor(LENGTHS).unsqueeze(1)).unsqueeze(1)
    y, values = net.embed(x), None
    for layer in net.encoders:
        stream = Stream(mask, values)
        if values is None:
            v_1 = layer.self_attn.linear_v(layer.norm1(y)).unflatten(-1, (2, 8)).transpose(1, 2)
        y, _ = layer.forward(y, stream)
        values = stream.state
        torch.testing.assert_close(values, v_1)
    y = net.after_norm(y)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(out[b, :length], y[b, :length])


def test_gradcheck():
    """The values of the first layer have gradients from the second."""
    size = {"num_blocks": 2, "output_size": 4, "attention_heads": 2, "linear_units": 4}
    net, x = encoder(attention={"learned": True}, **size), draw(1, 4, 8).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, _: run(net, x), (x, cores(net)[1].shares))


@pytest.mark.parametrize("case", WHOLE)  # not the older encoder, whose positions depend on the length of the batch
def test_padding_changes_nothing_and_a_batch_equals_its_samples(case):
    net, x = encoder(case, {"first": 0.7, "own": 0.6}).eval(), draw(2, 9, 8)
    together = run(net, x, LENGTHS)
    padded = x.clone()
    padded[1, 5:] = 1e3
    torch.testing.assert_close(run(net, padded, LENGTHS)[1, :5], together[1, :5])
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(run(net, x[b : b + 1, :length]), together[b : b + 1, :length])


@pytest.mark.parametrize("case", CASES)
def test_every_parameter_is_trained_and_state_dicts_load_strictly(case):
    """Distributed training needs a gradient for every parameter: the first layer has no shares."""
    net, x = encoder(case, {"learned": True}), draw(2, 9, 8)
    (run(net, x) * draw(2, 9, 16, seed=1)).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    shares = [core.shares for core in cores(net)]
    assert shares[0] is None and all((each.grad != 0).all() for each in shares[1:])
    other = encoder(case, {"learned": True})
    for parameter in other.parameters():
        parameter.data.normal_()
    other.load_state_dict(net.state_dict(), strict=True)
    assert torch.equal(run(other.eval(), x), run(net.eval(), x))
    constant = encoder(case)
    added = set(net.state_dict()) - set(constant.state_dict())
    assert {name.split(".core.")[1] for name in added} == {"shares"} and len(added) == 2


@pytest.mark.parametrize("learned", [False, True])
def test_the_softmax_equivalent_setting_is_softmax_in_an_encoder(learned):
    given = {name: int(share) for name, share in ValueResidual.SOFTMAX_EQUIVALENT.items()}  # YAML may say 0 and 1
    net, softmax = encoder(attention=given | {"learned": learned}), encoder(attention={"core": "softmax"})
    softmax.load_state_dict(net.state_dict(), strict=not learned)
    x = draw(2, 9, 8)
    assert torch.equal(run(net, x, LENGTHS), run(softmax, x, LENGTHS))
    assert not torch.allclose(run(encoder(), x, LENGTHS), run(softmax, x, LENGTHS))


def test_a_layer_whose_first_layer_is_skipped_has_its_own_values():
    always = 1 - 1e-12
    net = encoder("diverse_conformer", stochastic_depth_rate=[always, 0.0, 0.0])
    seen = []
    cores(net)[1].register_forward_pre_hook(lambda _, given: seen.append(given[0].stream.state))
    run(net, draw(2, 9, 8))
    assert seen == [None]


def test_on_its_own_it_is_softmax_attention():
    module, softmax = (build_attention(core, SIZE, H).double() for core in ("value_residual", "softmax"))
    softmax.load_state_dict(module.state_dict())
    x = draw(2, 6, SIZE)
    assert torch.equal(module(x, x, x, None), softmax(x, x, x, None))


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("diverse_contextual_block_transformer", {}, "'value_residual' hand on a state, and .* attends in blocks"),
        ("diverse_transformer", {"attention": {"own": "half"}}, "own must be a number, but is 'half'"),
        ("diverse_transformer", {"attention": {"learned": 1}}, "learned must be true or false, but is 1"),
    ],
)
def test_invalid_options_and_block_encoders_are_refused(name, options, text):
    with pytest.raises(ConfigError, match=text):
        encoder(name, **options)


@pytest.mark.parametrize("use", ["cross", "causal"])
def test_it_is_for_encoders(use):
    with pytest.raises(ValueError, match="'value_residual' does not support c.*; choose one that does: softmax"):
        build_attention("value_residual", SIZE, H, **{use: True})
