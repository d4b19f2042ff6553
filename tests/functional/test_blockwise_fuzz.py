"""A long proof, run by `make trust`: block-wise attention equals the dense form on random shapes, masks and blocks."""

import pytest
import torch

from espnet_diverse.functional import blockwise


def draw(seed):
    generator = torch.Generator().manual_seed(seed)

    def size(low, high):
        return int(torch.randint(low, high + 1, (), generator=generator))

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.double, generator=generator)

    batch, heads, queries, keys, width, clusters = (size(1, n) for n in (3, 4, 40, 40, 9, 8))
    arguments = [normal(batch, heads, n, width) for n in (queries, keys, keys)]
    arguments += [(3 * normal(batch, heads, n, clusters)).softmax(-1) for n in (queries, keys)]
    shapes = [(batch, 1, 1, keys), (batch, 1, queries, keys), (1, 1, queries, keys), (batch, heads, queries, keys)]
    mask = torch.rand(shapes[seed % 4], generator=generator) < 0.7 if seed % 5 else None
    bias = normal(batch, heads, queries, keys) if seed % 3 == 0 else None
    return arguments, float(torch.rand((), generator=generator)), mask, bias, size(8, 600), normal(*arguments[0].shape)


@pytest.mark.trust
@pytest.mark.parametrize("start", range(0, 1500, 100))
def test_random_shapes(start, monkeypatch):
    for seed in range(start, start + 100):
        arguments, gamma, mask, bias, block, weight = draw(seed)
        monkeypatch.setattr(blockwise, "block_size", lambda device, block=block: block)
        results = []
        for function in (blockwise.sdma_attention, blockwise.dense):
            leaves = [x.clone().requires_grad_() for x in (*arguments, *([] if bias is None else [bias]))]
            context = function(*leaves[:5], gamma, mask, bias=None if bias is None else leaves[5])
            results.append([context, *torch.autograd.grad((context * weight).sum(), leaves)])
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-10, msg=lambda m, s=seed: f"seed {s}: {m}")
