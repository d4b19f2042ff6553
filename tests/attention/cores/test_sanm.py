"""The SAN-M core against loops in double precision, its gradients, its start, dropout and options."""

import pytest
import torch
import torch.nn.functional as F
from espnet2.torch_utils.initialize import initialize
from references import softmax_variants as oracle
from references.core_inputs import (
    MASKS,
    PADDED,
    SIZE,
    D,
    H,
    attention_gradcheck,
    heads,
    sequences,
    whole_position,
)
from references.sdma import attention

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.attention.cores import sanm
from espnet_diverse.option_checks import OptionError


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "causal"])
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("width", [3, 8], ids=["odd", "even, wider than the sequence"])
def test_equals_loops(residual, mask, relative, width):
    core = build_core("sanm", SIZE, H, {"kernel_size": width, "residual": residual}).double()
    given = whole_position(heads(MASKS[mask], relative=relative, need_weights=True))
    context, weights = core(given)
    filters = core.filters.detach().view(H, D, width).numpy()
    for b, q, k, v, seen, term in sequences(given):
        n = q.shape[1]
        for h in range(H):
            expected = attention(q[h], k[h], seen[h], bias=term[h] / D**0.5)
            torch.testing.assert_close(weights[b, h, :n, :n], torch.tensor(expected))
            whole = expected @ v[h] + oracle.memory(v[h], filters[h], residual)
            torch.testing.assert_close(context[b, h, :n], torch.tensor(whole))


def test_gradcheck():
    module = build_attention("sanm", SIZE, H, kernel_size=2)
    assert attention_gradcheck(module, torch.arange(5).view(1, 1, 5) < 4)


@pytest.mark.parametrize("start", ["drawn", "zero"])
def test_the_start_outlasts_espnets_initialisation(start):
    module = build_attention("sanm", SIZE, H, kernel_size=9, start=start)
    initialize(module, "xavier_uniform")
    largest = float(module.core.filters.detach().abs().amax())
    assert 0.25 < largest <= 1 / 3 if start == "drawn" else largest == 0


def test_dropout_acts_on_the_memory_too(monkeypatch):
    monkeypatch.setattr(sanm, "softmax_attention", lambda given: (torch.zeros_like(given.v), None))
    core, given = build_core("sanm", SIZE, H).double(), heads(PADDED)
    memory = core(given)[0]
    given.dropout = 0.5
    torch.manual_seed(0)
    dropped = core(given)[0]
    torch.manual_seed(0)
    torch.testing.assert_close(dropped, F.dropout(memory, 0.5))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel_size": 0}, "kernel_size must be at least 1, but is 0"),
        ({"residual": 1}, "residual must be true or false, but is 1"),
        ({"start": "one"}, "start must be one of drawn zero, but is 'one'"),
        ({"causal": True}, "attention 'sanm' does not support causal self-attention; choose one that does: softmax"),
        ({"cross": True}, "attention 'sanm' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("sanm", SIZE, H, **options)
