"""Parts of differential attention against their definitions, gradients, and half precision."""

import pytest
import torch
from references.core_inputs import draw

from espnet_diverse.functional.differential import (
    difference_weight,
    extended_context,
    extension_weight,
    head_norm,
)


def test_a_normalised_head_has_the_given_root_mean_square():
    x = 100 * draw(2, 4, 6)
    torch.testing.assert_close(head_norm(x, torch.ones(6).double()).square().mean(-1), torch.ones(2, 4).double())
    torch.testing.assert_close(head_norm(x, draw(6)), head_norm(x, torch.ones(6).double()) * draw(6))
    assert torch.equal(head_norm(torch.zeros(3, 6), torch.ones(6)), torch.zeros(3, 6))


def test_gradcheck():
    given = [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate([(2, 3), (2, 3), (2, 6), (6,)])]
    zeros = torch.zeros(2, 6, dtype=torch.double).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k, x, w: difference_weight(q, k, 0.8) * head_norm(x, w), given)
    assert torch.autograd.gradcheck(head_norm, (zeros, given[-1]))


def test_half_precision_is_computed_in_float32():
    x = torch.full((1, 4), 300.0, dtype=torch.float16)  # whose square float16 cannot hold
    found = head_norm(x, torch.ones(4, dtype=torch.float16))
    assert found.dtype == torch.float16 and torch.equal(found, torch.ones(1, 4, dtype=torch.float16))
    assert difference_weight(x.view(2, 2) / 300, x.view(2, 2) / 300, 0.5).dtype == torch.float32


@pytest.mark.parametrize("t", [0, 1, 3, 4, 9])
def test_the_weight_of_the_extension_passes_from_the_given_to_the_learned_number(t):
    alpha = min(1, t / 4)
    expected = (1 - alpha) * (t / 4) * 0.8 + alpha * 0.3
    torch.testing.assert_close(extension_weight(t / 4, 0.8, torch.tensor(0.3)), torch.tensor(expected))


def test_gradcheck_of_the_extension():
    given = [x.requires_grad_() for x in (draw(1, 2, 3, 4), draw(4, 4, seed=1), draw(1, seed=2)[0])]

    def extended(context, weight, learned):
        return extended_context(context, weight, extension_weight(0.4, 0.8, learned))

    assert torch.autograd.gradcheck(extended, given)
