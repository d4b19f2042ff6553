"""The memory block against loops in double precision, and its gradients."""

import pytest
import torch
from references import softmax_variants as oracle
from references.core_inputs import B, D, H, draw

from espnet_diverse.functional.sanm import memory_block

T = 6


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 15])
def test_equals_loops_without_what_is_padding(width, residual):
    """Filters are wider than the sequence, too, and have an even number of positions."""
    v, filters = draw(B, H, T, D), draw(H * D, width, seed=1)
    valid = torch.arange(T) < torch.tensor([[[6]], [[4]]])
    found = memory_block(v, filters, valid, residual)
    for b, n in enumerate((6, 4)):
        for h in range(H):
            part = filters[h * D : (h + 1) * D].numpy()
            torch.testing.assert_close(
                found[b, h, :n], torch.tensor(oracle.memory(v[b, h, :n].numpy(), part, residual))
            )


def test_all_is_valid_without_a_mask():
    v, filters = draw(B, H, T, D), draw(H * D, 3, seed=1)
    everything = torch.ones(1, 1, T, dtype=torch.bool)
    assert torch.equal(memory_block(v, filters), memory_block(v, filters, everything))


def test_gradcheck():
    valid = torch.arange(T) < 5
    given = draw(1, H, T, D).requires_grad_(), draw(H * D, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, filters: memory_block(v, filters, valid.view(1, 1, T)), given)
