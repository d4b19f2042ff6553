"""Hashes, the order of positions, and attention within chunks, against loops."""

import numpy as np
import pytest
import torch
from references import reformer as oracle

from espnet_diverse.functional.lsh import hash_buckets, lsh_attention, sorted_positions

T, D, SIZE = 8, 4, 2


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_near_vectors_share_buckets_and_opposite_ones_do_not():
    x, rotations = draw(1, 1, 50, D), draw(3, D, 5, seed=1)
    buckets = hash_buckets(x, rotations)
    assert buckets.shape == (1, 1, 3, 50) and buckets.min() >= 0 and buckets.max() < 10
    assert torch.equal(hash_buckets(2 * x, rotations), buckets)
    assert torch.equal(hash_buckets(-x, rotations), (buckets + 5) % 10)


def test_positions_are_sorted_by_bucket_and_padding_comes_last():
    buckets = torch.tensor([3, 1, 1, 0, 2]).view(1, 1, 1, 5)
    valid = torch.tensor([[True, True, True, True, False]])
    assert sorted_positions(buckets, valid).flatten().tolist() == [3, 1, 2, 0, 4]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("rounds", [1, 3])
def test_attention_equals_one_softmax_over_the_union_of_rounds(tied, rounds):
    q, v, rotations = draw(1, 1, T, D), draw(1, 1, T, D, seed=2), draw(rounds, D, 3, seed=3)
    k = torch.nn.functional.normalize(q, dim=-1) if tied else draw(1, 1, T, D, seed=1)
    valid = torch.ones(1, T, dtype=torch.bool)
    orders = tuple(sorted_positions(hash_buckets(x, rotations), valid) for x in (q, k))
    found = lsh_attention(q, k, v, orders, valid, SIZE, tied)
    expected = oracle.head(*(x[0, 0].numpy() for x in (q, k, v)), rotations.numpy(), SIZE, tied)
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-9)


def test_a_position_that_is_alone_attends_to_itself():
    q, v = draw(1, 1, 2, D), draw(1, 1, 2, D, seed=1)
    k, order = torch.nn.functional.normalize(q, dim=-1), torch.tensor([0, 1]).view(1, 1, 1, 2)
    valid = torch.tensor([[True, False]])
    found = lsh_attention(q, k, v, (order, order), valid, 2, True)
    torch.testing.assert_close(found[0, 0, 0], v[0, 0, 0])


def test_dropout_removes_weights():
    q, v, valid = draw(1, 1, T, D), torch.ones(1, 1, T, 1, dtype=torch.double), torch.ones(1, T, dtype=torch.bool)
    order = sorted_positions(hash_buckets(q, draw(1, D, 2)), valid)
    torch.manual_seed(0)
    dropped = torch.cat([lsh_attention(q, q, v, (order, order), valid, 4, False, 0.5) for _ in range(400)])
    assert dropped.std() > 0.1 and abs(dropped.mean() - 1) < 0.05
