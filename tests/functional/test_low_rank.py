"""Products with matrices of low rank: equal to a loop over samples, with gradients."""

import torch

from espnet_diverse.functional.low_rank import low_rank

SHAPES = [(3, 4), (3, 5, 4), (3, 2, 5, 4)]


def matrices(sets, rank=2):
    torch.manual_seed(0)
    return torch.randn(sets, rank, 4, dtype=torch.double), torch.randn(sets, 6, rank, dtype=torch.double)


def test_each_sample_has_its_own_matrices():
    a, b = matrices(3)
    for shape in SHAPES:
        x = torch.randn(shape, dtype=torch.double)
        expected = torch.stack([x[n] @ (b[n] @ a[n]).T for n in range(3)])
        torch.testing.assert_close(low_rank(x, a, b), expected)


def test_all_samples_may_have_the_same():
    a, b = matrices(1)
    for shape in SHAPES:
        x = torch.randn(shape, dtype=torch.double)
        torch.testing.assert_close(low_rank(x, a, b), x @ (b[0] @ a[0]).T)


def test_gradients():
    for sets in (1, 3):
        inputs = [torch.randn(3, 2, 4, dtype=torch.double), *matrices(sets)]
        assert torch.autograd.gradcheck(low_rank, [each.requires_grad_() for each in inputs])
