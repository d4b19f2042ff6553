"""The gated core against loops in double precision, its gradients, its start, and its options."""

import pytest
import torch
from espnet2.torch_utils.initialize import initialize
from references import softmax_variants as oracle
from references.core_inputs import (
    MASKS,
    PADDED,
    SIZE,
    B,
    H,
    attention_gradcheck,
    draw,
    heads,
    sequences,
    whole_position,
)
from references.sdma import attention

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.option_checks import OptionError

each_gate = pytest.mark.parametrize("per", ["channel", "head"])


@each_gate
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_equals_loops(per, mask, relative):
    core = build_core("gated", SIZE, H, {"per": per, "scale": 1.5}).double()
    given = whole_position(heads(mask, relative=relative, need_weights=True))
    context, weights = core(given)
    for b, q, k, v, seen, term in sequences(given):
        n = q.shape[1]
        gates = oracle.gates(given.query[b, :n].numpy(), core.gate.weight.detach().numpy(), 1.5).reshape(n, H, -1)
        for h in range(H):
            expected = attention(q[h], k[h], seen[h], bias=term[h] / q.shape[2] ** 0.5)
            torch.testing.assert_close(weights[b, h, :n, :n], torch.tensor(expected))
            torch.testing.assert_close(context[b, h, :n], torch.tensor(gates[:, h] * (expected @ v[h])))


@each_gate
def test_gradcheck(per):
    mask = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    assert attention_gradcheck(build_attention("gated", SIZE, H, per=per), mask)


@each_gate
@pytest.mark.parametrize("start", ["drawn", "zero"])
def test_the_start_outlasts_espnets_initialisation(per, start):
    module = build_attention("gated", SIZE, H, per=per, start=start, scale=2.0)
    initialize(module, "xavier_uniform")
    gates = module.core.gates(draw(B, 6, SIZE).float())
    assert gates.shape == (B, H, 6, SIZE // H if per == "channel" else 1)
    assert bool((gates == 1).all()) == (start == "zero")
    assert gates.amin() > 0 and gates.amax() < 2


def test_gates_that_start_at_one_learn():
    module, x = build_attention("gated", SIZE, H, start="zero", scale=2.0), draw(B, 6, SIZE).float()
    module(x, x, x, None).square().sum().backward()
    assert module.core.gate.weight.grad.abs().amax() > 1e-3


def test_without_weights_the_kernel_is_the_fused_one():
    """The result is the kernel's to the bit; explicit weights are rounded otherwise."""
    core, given = build_core("gated", SIZE, H, {"start": "zero", "scale": 2.0}).double(), heads(PADDED)
    assert torch.equal(core(given)[0], softmax_attention(given)[0]) and core(given)[1] is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"per": "layer"}, "per must be one of channel head, but is 'layer'"),
        ({"start": "one"}, "start must be one of drawn zero, but is 'one'"),
        ({"scale": 0}, "scale must be above 0, but is 0"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        build_core("gated", SIZE, H, options)
