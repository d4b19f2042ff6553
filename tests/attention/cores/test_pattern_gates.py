"""The core of pattern gates against loops in double precision, its temperature, its choice and options."""

import math
from dataclasses import replace

import pytest
import torch
from references.core_inputs import PADDED, SIZE, D, H, attention_gradcheck, heads, sequences, whole_position

from espnet_diverse.attention import build_attention, build_core, set_updates_of_run
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

PATTERNS = ["global", "previous", {"window": 1}]


def build(**options):
    core = build_core("pattern_gates", SIZE, H, {"patterns": PATTERNS, "tau_steps": 100} | options)
    torch.manual_seed(0)
    torch.nn.init.normal_(core.gates)
    return core.double().eval()


def allowed(pattern, i, j):
    """Whether query i attends to key j."""
    return {"global": True, "previous": j == max(i - 1, 0), "next": None}.get(pattern, abs(i - j) <= 1)


@pytest.mark.parametrize("mask", [PADDED, None], ids=["padding", "none"])
@pytest.mark.parametrize("patterns", [PATTERNS, ["previous", {"window": 1}]], ids=str)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "context"])
def test_equals_loops(mask, patterns, relative, need_weights):
    core = build(patterns=patterns)
    given = whole_position(heads(mask, relative=relative, need_weights=need_weights))
    context, weights = core(given)
    for b, q, k, v, seen, term in sequences(given):
        n = q.shape[1]
        for h in range(H):
            exponents = [math.exp(gate) for gate in core.gates[h].tolist()]  # before any update the temperature is 1
            gates = [each / sum(exponents) for each in exponents]
            for i in range(n):
                shares = [
                    sum(g * bool(allowed(pattern if isinstance(pattern, str) else "window", i, j)) for g, pattern in
                        zip(gates, patterns, strict=True)) * bool(seen[h, i, j])
                    for j in range(n)
                ]  # fmt: skip
                products = [math.exp((q[h, i] @ k[h, j] + term[h, i, j]) / D**0.5) for j in range(n)]
                row = torch.tensor([s * p for s, p in zip(shares, products, strict=True)], dtype=torch.double)
                row = row / row.sum()
                torch.testing.assert_close(context[b, h, i], row @ torch.as_tensor(v[h]))
                if need_weights:
                    torch.testing.assert_close(weights[b, h, i, :n], row)


def test_gradcheck_and_gradients_of_the_gates():
    module = build_attention("pattern_gates", SIZE, H, patterns=["previous", {"window": 1}], tau_steps=100)
    assert attention_gradcheck(module, torch.ones(1, 1, 5, dtype=torch.bool))
    core = build()

    def context(gates):
        core.gates.data.copy_(gates)
        return torch.func.functional_call(core, {"gates": gates}, (heads(PADDED),))[0][:, :, :4]

    assert torch.autograd.gradcheck(context, core.gates.detach().clone().requires_grad_())


def test_gates_that_underflow_have_finite_gradients():
    """In float32 exp(-120) is 0; the pairs of the other patterns then get no weight, and nothing becomes NaN."""
    core = build(patterns=["global", "previous"]).float()
    with torch.no_grad():
        core.gates.copy_(torch.tensor([[0.0, 120.0]]).expand(H, 2))
    given = whole_position(heads(PADDED, need_weights=True))
    context, weights = core(replace(given, **{name: getattr(given, name).float() for name in "qkv"}))
    assert weights[0, 0, 2].argmax() == 1 and float(weights[0, 0, 2, 1].detach()) == pytest.approx(1)
    context.square().sum().backward()
    assert torch.isfinite(core.gates.grad).all()


def test_the_temperature_falls_so_that_small_differences_decide():
    core = build(tau_steps=0.5, tau_final=0.1)
    core.gates.data = torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0]], dtype=torch.double)
    set_updates_of_run(core, 100)
    given, largest = heads(PADDED), []
    for updates in (0, 25, 50, 100):
        core.updates.count.fill_(updates)
        with scope({}) as opened:
            core(given)
        largest.append(float(opened.stats()["largest_gate"]))
    for value, tau in zip(largest, (1, 0.1**0.5, 0.1, 0.1), strict=True):
        assert value == pytest.approx(math.exp(0.5 / tau) / (math.exp(0.5 / tau) + 2), rel=1e-5)
    assert [each.name for each in core.chosen().patterns] == ["previous", "global"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"patterns": []}, "must be a list of patterns"),
        ({"patterns": ["previos"]}, "unknown pattern of a head 'previos'; did you mean 'previous'?"),
        ({"tau_final": 2.0}, "tau_final must be above 0 and at most 1, but is 2.0"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        build(**options)
