"""Sinkhorn normalisation and sorted blocks against loops, and their gradients."""

import numpy as np
import torch
from references import sinkhorn as oracle

from espnet_diverse.functional.sinkhorn import gumbel_like, sinkhorn, sort_blocks


def logits(*shape):
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_equals_loops_without_padding():
    given, valid = logits(2, 3, 4, 4), torch.tensor([[True] * 4, [True] * 3 + [False]])
    found = sinkhorn(given, valid, 3)
    for row, count in enumerate((4, 3)):
        for head in range(3):
            expected = oracle.normalised(given[row, head, :count, :count].numpy(), 3)
            np.testing.assert_allclose(found[row, head, :count, :count], expected, rtol=1e-12)
    assert not found[1, :, 3].any() and not found[1, :, :, 3].any()


def test_rows_and_columns_sum_to_one_after_many_steps():
    found = sinkhorn(logits(1, 2, 5, 5), torch.ones(1, 5, dtype=torch.bool), 200)
    torch.testing.assert_close(found.sum(-1), torch.ones(1, 2, 5, dtype=torch.double))
    torch.testing.assert_close(found.sum(-2), torch.ones(1, 2, 5, dtype=torch.double))


def test_a_small_temperature_sorts():
    """Blocks 2, 0, 1 are wanted at places 0, 1, 2."""
    wanted = torch.eye(3)[[2, 0, 1]].double()
    order = sinkhorn(wanted.view(1, 1, 3, 3) / 0.01, torch.ones(1, 3, dtype=torch.bool), 20)
    x = logits(1, 1, 3, 2, 4)
    torch.testing.assert_close(sort_blocks(order, x), x[:, :, [2, 0, 1]])


def test_gradcheck():
    valid = torch.tensor([[True, True, False]])
    assert torch.autograd.gradcheck(lambda x: sinkhorn(x, valid, 2), logits(1, 1, 3, 3).requires_grad_())


def test_noise_has_gumbels_mean_and_variance():
    torch.manual_seed(0)
    noise = gumbel_like(torch.empty(200_000, dtype=torch.double))
    assert abs(noise.mean() - 0.5772) < 0.01 and abs(noise.var() - torch.pi**2 / 6) < 0.02
