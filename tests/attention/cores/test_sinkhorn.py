"""The Sinkhorn core against loops in double precision, its noise, and its options."""

import numpy as np
import pytest
import torch
from references import sinkhorn as oracle
from references.core_inputs import SIZE, H, gradcheck, heads, padding

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

LENGTHS = (11, 6)
PADDED = padding(*LENGTHS)


@pytest.mark.parametrize(
    "options", [{"block_size": 4}, {"block_size": 3, "iterations": 2, "temperature": 0.3}], ids=str
)
def test_equals_loops(options):
    core, given = build_core("sinkhorn", SIZE, H, options).eval(), heads(PADDED, LENGTHS[0])
    context, weights = core(given)
    assert weights is None
    chosen = {"iterations": 8, "temperature": 0.75} | options
    for row, length in enumerate(LENGTHS):
        for head in range(H):
            q, k, v = (x[row, head, :length].numpy() for x in (given.q, given.k, given.v))
            expected = oracle.head(q, k, v, *(chosen[key] for key in ("block_size", "iterations", "temperature")))
            np.testing.assert_allclose(context[row, head, :length], expected, rtol=1e-9)


def test_gradcheck():
    assert gradcheck(build_core("sinkhorn", SIZE, H, {"block_size": 4}).eval(), heads(PADDED, LENGTHS[0]))


def test_noise_changes_the_order_in_training_alone():
    core, given = build_core("sinkhorn", SIZE, H, {"block_size": 4}), heads(PADDED, LENGTHS[0])
    core.train()
    torch.manual_seed(0)
    noisy = [core(given)[0] for _ in range(2)]
    assert not torch.allclose(*noisy)
    core.eval()
    assert torch.equal(core(given)[0], core(given)[0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"block_size": 0}, "block_size must be at least 1, but is 0"),
        ({"iterations": 0}, "iterations must be at least 1, but is 0"),
        ({"temperature": 0.0}, "temperature must be above 0, but is 0.0"),
        ({"cross": True}, "attention 'sinkhorn' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("sinkhorn", SIZE, H, **options)


def test_it_is_not_exported():
    core, given = build_core("sinkhorn", SIZE, H, {"block_size": 4}).eval(), heads(PADDED, LENGTHS[0])
    with pytest.raises(ValueError, match="attention 'sinkhorn' has a number of blocks that depends on the length"):
        torch.jit.trace(lambda q: core(type(given)(**(vars(given) | {"q": q})))[0], given.q)
