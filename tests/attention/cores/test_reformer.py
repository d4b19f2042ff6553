"""The core of the Reformer against loops in double precision, its rotations, and its options."""

import numpy as np
import pytest
import torch
from references import reformer as oracle
from references.core_inputs import SIZE, H, gradcheck, heads, padding

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

LENGTHS = (11, 6)
PADDED = padding(*LENGTHS)
SMALL = {"chunk_size": 3, "half_buckets": 2}


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"rounds": 4, "chunk_size": 2}], ids=str)
def test_equals_loops(options):
    core, given = build_core("reformer", SIZE, H, SMALL | options).double().eval(), heads(PADDED, LENGTHS[0])
    given.k = given.q if core.tied else given.k
    context, weights = core(given)
    assert weights is None
    rotations = core.bits.view(torch.float32).double().numpy()
    for row, length in enumerate(LENGTHS):
        for head in range(H):
            q, k, v = (x[row, head, :length].numpy() for x in (given.q, given.k, given.v))
            expected = oracle.head(q, k, v, rotations, core.options.chunk_size, core.options.tied)
            np.testing.assert_allclose(context[row, head, :length], expected, rtol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_gradcheck(tied):
    assert gradcheck(build_core("reformer", SIZE, H, SMALL | {"tied": tied}).eval(), heads(PADDED, LENGTHS[0]))


def test_tied_keys_have_the_projection_of_the_queries():
    tied, untied = (build_attention("reformer", SIZE, H, tied=value) for value in (True, False))
    assert tied.linear_k is tied.linear_q and untied.linear_k is not untied.linear_q
    assert list(tied.head_weights()) == ["q", "v"] and list(untied.head_weights()) == ["q", "k", "v"]


def test_rotations_are_saved():
    first, second = (build_core("reformer", SIZE, H, SMALL) for _ in range(2))
    assert not torch.equal(first.bits, second.bits)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.bits, second.bits)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"chunk_size": 0}, "chunk_size must be at least 1, but is 0"),
        ({"rounds": 0}, "rounds must be at least 1, but is 0"),
        ({"half_buckets": 0}, "half_buckets must be at least 1, but is 0"),
        ({"cross": True}, "attention 'reformer' does not support cross-attention; choose one that does: softmax"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises((OptionError, ValueError), match=text):
        build_attention("reformer", SIZE, H, **options)


def test_it_is_not_exported():
    core, given = build_core("reformer", SIZE, H, SMALL).eval(), heads(PADDED, LENGTHS[0])
    with pytest.raises(ValueError, match="attention 'reformer' has a number of chunks that depends on the length"):
        torch.jit.trace(lambda q: core(type(given)(**(vars(given) | {"q": q})))[0], given.q)
