"""The talking-heads core against loops in double precision, its gradients, its start, dropout and options."""

import numpy as np
import pytest
import torch
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

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

SIDES = [{}, {"before": False}, {"after": False}]


def build(**options):
    torch.manual_seed(0)
    return build_core("talking_heads", SIZE, H, {"start": "drawn"} | options).double()


def maps(core):
    """P_l and P_w as arrays; one that is left out is the identity."""
    return (np.eye(H) if each is None else each.detach().numpy() for each in (core.of_logits, core.of_weights))


@pytest.mark.parametrize("options", SIDES, ids=str)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_equals_loops(options, mask, relative):
    core, given = build(**options), whole_position(heads(mask, relative=relative, need_weights=True))
    context, weights = core(given)
    for b, q, k, v, seen, term in sequences(given):
        n = q.shape[1]
        expected, mixed = oracle.talking_heads(q, k, *maps(core), seen, term / D**0.5)
        torch.testing.assert_close(weights[b, :, :n, :n], torch.tensor(expected))
        torch.testing.assert_close(context[b, :, :n], torch.tensor(mixed @ v))


@pytest.mark.parametrize("options", SIDES, ids=str)
def test_gradcheck(options):
    module = build_attention("talking_heads", SIZE, H, start="drawn", **options)
    assert attention_gradcheck(module, torch.ones(1, 5, 5, dtype=torch.bool).tril())


@pytest.mark.parametrize("start", ["identity", "drawn"])
def test_the_start_outlasts_espnets_initialisation(start):
    module = build_attention("talking_heads", SIZE, H, start=start)
    initialize(module, "xavier_uniform")
    for each in module.core.parameters():
        assert torch.equal(each, torch.eye(H)) == (start == "identity")
    given = heads(PADDED)
    softmax = build_core("softmax", SIZE, H)(given)[0]
    assert torch.allclose(module.core.double()(given)[0], softmax) == (start == "identity")


def test_heads_that_start_as_identity_learn_to_talk():
    core, given = build(start="identity"), heads(PADDED)
    core(given)[0].square().sum().backward()
    between = ~torch.eye(H, dtype=torch.bool)
    assert core.of_logits.grad[between].abs().amin() > 0 and core.of_weights.grad[between].abs().amin() > 0


def test_dropout_acts_on_the_mixed_weights():
    core, given = build(), heads(PADDED)
    torch.manual_seed(0)
    given.dropout = 0.5
    dropped = core(given)[0]
    given.need_weights = True
    mixed = torch.einsum("bgij,gh->bhij", core(given)[1], core.of_weights).contiguous()
    torch.manual_seed(0)
    torch.testing.assert_close(dropped, torch.nn.functional.dropout(mixed, 0.5) @ given.v)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"before": "yes"}, "before must be true or false, but is 'yes'"),
        ({"start": "zero"}, "start must be one of identity drawn, but is 'zero'"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        build(**options)
