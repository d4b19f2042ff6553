"""The arguments of a core, and the defaults of the base class."""

import pytest
import torch

from espnet_diverse.attention import Core, Heads, Inputs, Inspection


def heads(**options):
    x, memory = torch.randn(2, 3, 8).half(), torch.randn(2, 4, 8).half()
    q, k = torch.randn(2, 2, 3, 4).half(), torch.randn(2, 2, 4, 4).half()
    return Heads(q, k, k.clone(), x, memory, q, Inputs(x, memory + 1, memory), torch.ones(2, 1, 1, 4).bool(), **options)


def test_full_precision_converts_a_shared_tensor_once():
    full = heads(position=torch.zeros(2, 2, 3, 4).half()).in_full_precision()
    tensors = [full.q, full.k, full.v, full.query, full.key, full.position, *full.perturbed]
    assert all(tensor.dtype == torch.float32 for tensor in tensors)
    assert full.raw_q is full.q and full.perturbed.query is full.query and full.perturbed.value is full.key
    assert full.perturbed.key is not full.key and full.mask.dtype == torch.bool


def test_the_position_term_is_added_before_scaling():
    given = heads()
    position = torch.randn(2, 2, 3, 4).half()
    shifted = heads(position=position)
    shifted.q, shifted.k = given.q, given.k
    torch.testing.assert_close(shifted.scores(), given.scores() + shifted.scaled_position(), atol=5e-3, rtol=5e-3)
    torch.testing.assert_close(shifted.scaled_position(), position / 2)
    assert given.scaled_position() is None


def test_a_core_needs_nothing_but_forward():
    core, x = Core(8, 2), torch.randn(2, 3, 8)
    assert core.perturb(x, x, x) == Inputs(x, x, x) and core.key_features(x, x) is None
    assert core.compress(Inputs(x, x, x), None) == Inputs(x, x, x) and core.connect([core]) is False
    assert core.inspect() == Inspection() and core.SOFTMAX_EQUIVALENT is None
    with pytest.raises(NotImplementedError):
        core(heads())
