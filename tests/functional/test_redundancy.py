"""Redundancy and distance of heads, and diversity of a memory, against loops and golden arrays."""

import itertools
import math

import numpy as np
import pytest
import torch
from references import sdma as oracle
from references.golden import golden

from espnet_diverse.functional.redundancy import (
    diversity_radius,
    head_redundancy_matrix,
    layer_redundancy,
    pairwise_distance,
)


def test_equal_loops(draw):
    weights = draw.posterior(3, 4, 5, 6)
    array = weights.detach().numpy()
    assert layer_redundancy(weights).item() == pytest.approx(oracle.layer_redundancy(array), abs=1e-12)
    matrix = torch.tensor(oracle.head_redundancy_matrix(array))
    torch.testing.assert_close(head_redundancy_matrix(weights), matrix)


def test_identical_and_disjoint_heads():
    same = torch.rand(1, 1, 3, 4).softmax(-1).expand(1, 4, 3, 4)
    assert layer_redundancy(same).item() == pytest.approx(2, abs=1e-5)
    assert head_redundancy_matrix(same).mean().item() == pytest.approx(1, abs=1e-5)
    disjoint = torch.eye(4).view(1, 4, 1, 4).expand(1, 4, 3, 4)
    assert layer_redundancy(disjoint).item() == pytest.approx(0, abs=1e-6)
    assert head_redundancy_matrix(disjoint).mean().item() == pytest.approx(1 / 4)


def test_padded_keys_change_nothing(draw):
    weights = draw.posterior(2, 3, 4, 5)
    padded = torch.nn.functional.pad(weights, (0, 3))
    for function in (layer_redundancy, head_redundancy_matrix):
        torch.testing.assert_close(function(padded), function(weights))


def test_gradients_also_where_weights_are_zero(draw):
    weights = draw.posterior(2, 2, 2, 3)
    one_hot = torch.eye(3).expand(2, 2, 3, 3).clone().requires_grad_()
    for function in (layer_redundancy, head_redundancy_matrix):
        assert torch.autograd.gradcheck(function, (weights,))
        assert torch.autograd.grad(function(one_hot).sum(), one_hot)[0].isfinite().all()


def test_distance_and_diversity_equal_the_golden_arrays():
    arrays = golden("metrics")
    for ours, name in (
        (pairwise_distance(arrays["heads"]), "pairwise_dist"),
        (diversity_radius(arrays["div_X"]), "diversity_ddof0"),
    ):
        torch.testing.assert_close(ours, arrays[name], rtol=1e-10, atol=1e-10)
    radius = torch.stack([diversity_radius(axis.unsqueeze(-1)) for axis in arrays["div_X"].unbind(-1)])
    torch.testing.assert_close(radius, arrays["div_radius_std0"], rtol=1e-10, atol=1e-10)


def test_distance_and_diversity_equal_loops(draw):
    heads = draw.normal(2, 3, 4, 5).detach()
    pairs = [math.dist(a, b) for item in heads.flatten(0, 1).tolist() for a, b in itertools.combinations(item, 2)]
    assert pairwise_distance(heads).item() == pytest.approx(np.mean(pairs))
    assert pairwise_distance(heads[0, 0]).item() == pytest.approx(np.mean(pairs[:6]))
    by_hand = [math.prod(np.std(item, axis=0)) ** (1 / 5) for item in heads[0].numpy()]
    np.testing.assert_allclose(diversity_radius(heads[0]), by_hand)
    heads[0, 0, :, 2] = 7.0
    assert diversity_radius(heads[0])[0] == 0.0 < diversity_radius(heads[0])[1]


def test_the_distance_of_one_head_is_refused():
    with pytest.raises(ValueError, match="one head has no distance to another; give at least 2 heads"):
        pairwise_distance(torch.ones(3, 1, 4))


def test_diversity_of_valid_vectors():
    torch.manual_seed(0)
    vectors, valid = torch.randn(3, 6, 200).double() * 1e-3, torch.rand(3, 6) < 0.7  # the product of radii underflows
    valid[2] = False
    found = diversity_radius(vectors, valid)
    for row in range(2):
        radii = vectors[row][valid[row]].std(0, correction=0)
        assert float(found[row]) == pytest.approx(float(radii.log().mean().exp()), rel=1e-10)
    assert found[2] == 0
    torch.testing.assert_close(diversity_radius(vectors, torch.ones(3, 6) > 0), diversity_radius(vectors))
