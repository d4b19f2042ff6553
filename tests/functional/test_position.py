"""Rotary position, linear biases and the position of Transformer-XL against loops."""

import math

import pytest
import torch

from espnet_diverse.functional import position as functional
from espnet_diverse.functional.position import sinusoids, turns


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


@pytest.mark.parametrize("size", [6, 7])
def test_sinusoids_match_the_transformer(size):
    table = sinusoids(torch.arange(-3, 5), size)
    assert table.shape == (8, size)
    for row, position in enumerate(range(-3, 5)):
        for i in range(size):
            angle = position / 10000 ** ((i - i % 2) / size)
            assert float(table[row, i]) == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-6)
