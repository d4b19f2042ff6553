"""Weights of self-attentive pooling against loops."""

import numpy as np
import torch
from references import repulsion as oracle

from espnet_diverse.functional.self_attentive_pooling import pooling_weights

LENGTHS = [5, 2]


def inputs():
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 5, 4), (3, 4), (6, 3)
    return [torch.randn(shape, generator=generator, dtype=torch.double) for shape in shapes]


def mask(lengths=LENGTHS):
    return torch.arange(5) < torch.tensor(lengths).unsqueeze(1)


def test_equal_the_loops():
    h, w, v = inputs()
    weights = pooling_weights(h, w, v, mask())
    for sample, length in enumerate(LENGTHS):
        expected = oracle.pooling_weights(*(each.numpy() for each in (h[sample], w, v)), length)
        np.testing.assert_allclose(weights[sample], expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(pooling_weights(h, w, v), pooling_weights(h, w, v, mask([5, 5])))


def test_the_gradients_are_right():
    h, w, v = (each.requires_grad_() for each in inputs())
    assert torch.autograd.gradcheck(lambda *given: pooling_weights(*given, mask()), (h, w, v))


def test_a_sample_without_positions_has_weights_of_0_and_finite_gradients():
    h, w, v = (each.requires_grad_() for each in inputs())
    weights = pooling_weights(h, w, v, mask([5, 0]))
    weights.square().sum().backward()
    assert not weights[1].any() and all(each.grad.isfinite().all() for each in (h, w, v))
