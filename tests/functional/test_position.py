"""Rotary position, linear biases and the position of Transformer-XL against loops."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from espnet_diverse.functional import position as functional
from espnet_diverse.functional.position import distance_bias, distance_term, sinusoids, turns


def vectors(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def rotate(x, position):
    return functional.rotate(x, *turns(position, x))


def test_channels_are_turned_as_complex_numbers():
    x = vectors(2, 3, 5, 6)
    position = torch.tensor([[0, 1, 2, 3, 4], [7, 6, 5, 40, 3]])
    out = rotate(x, position)
    for b in range(2):
        for t in range(5):
            for c in range(3):
                angle = int(position[b, t]) * 10000 ** (-2 * c / 6)
                for h in range(3):
                    turned = complex(x[b, h, t, c], x[b, h, t, c + 3]) * complex(math.cos(angle), math.sin(angle))
                    found = complex(out[b, h, t, c], out[b, h, t, c + 3])
                    assert abs(found - turned) < 1e-12


def test_dot_products_depend_on_distances_alone():
    q, k = vectors(1, 1, 1, 8).expand(1, 1, 4, 8), vectors(2, 1, 1, 8)[1:].expand(1, 1, 4, 8)
    position = torch.tensor([0, 3, 50, 20000])
    products = (rotate(q, position) * rotate(k, position + 5)).sum(-1)
    torch.testing.assert_close(products, products[..., :1].expand_as(products))
    torch.testing.assert_close(rotate(q, position).norm(dim=-1), q.norm(dim=-1))


def test_gradients():
    assert torch.autograd.gradcheck(lambda x: rotate(x, torch.arange(3)), (vectors(1, 2, 3, 4).requires_grad_(),))


def test_biases_fall_with_the_distance_by_the_slope_of_the_head():
    position = torch.arange(5)
    bias = distance_bias(position.unsqueeze(-1), position, 4)
    for h, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):
        for i in range(5):
            assert bias[h, i].tolist() == [-slope * abs(i - j) for j in range(5)]


def test_embeddings_of_distances_are_sines_and_cosines_in_turns():
    found = sinusoids(torch.tensor([-3, 0, 2]), 4)
    angles = torch.tensor([[-3.0, -0.03], [0.0, 0.0], [2.0, 0.02]], dtype=torch.double)
    torch.testing.assert_close(found[:, 0::2], angles.sin())
    torch.testing.assert_close(found[:, 1::2], angles.cos())


def test_the_term_of_each_pair_is_that_of_its_distance():
    torch.manual_seed(0)
    q, p = torch.randn(2, 3, 4, 5, dtype=torch.double), torch.randn(3, 7, 5, dtype=torch.double)
    distance = torch.randint(0, 7, (2, 1, 4, 6))
    found = distance_term(q, p, distance)
    for b, h, i, j in ((0, 0, 0, 0), (0, 2, 3, 5), (1, 1, 2, 4)):
        torch.testing.assert_close(found[b, h, i, j], q[b, h, i] @ p[h, distance[b, 0, i, j]])
    assert gradcheck(lambda q, p: distance_term(q, p, distance), (q.requires_grad_(), p.requires_grad_()))


@pytest.mark.parametrize("size", [6, 7])
def test_sinusoids_are_those_of_the_transformer(size):
    table = sinusoids(torch.arange(5), size)
    assert table.shape == (5, size)
    for position in range(5):
        for i in range(size):
            angle = position / 10000 ** ((i - i % 2) / size)
            assert float(table[position, i]) == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-6)
