"""Attention of short sequences in training; loops, masks and gradients are in test_blockwise.py as "plain"."""

import torch

from espnet_diverse.functional import blockwise
from espnet_diverse.functional.blockwise import sdma_attention


def inputs():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 5, 4, dtype=torch.double)
    p = torch.randn(2, 2, 5, 3, dtype=torch.double).softmax(-1)
    return [x.clone().requires_grad_() for x in (q, k, v, p)]


def test_short_sequences_take_it_in_training_and_long_ones_do_not(monkeypatch):
    q, k, v, p = inputs()
    taken = []

    def note(name):
        function = getattr(blockwise, name)
        double = type(name, (), {"apply": staticmethod(lambda *a: taken.append(name) or function.apply(*a))})
        monkeypatch.setattr(blockwise, name, double)

    note("WholeMatrixAttention")
    note("_SemanticMaskAttention")
    with torch.no_grad():
        expected = sdma_attention(q, k, v, p, p, 0.6)
    assert taken == []
    for size in (2**19, 8):
        monkeypatch.setattr(blockwise, "block_size", lambda device, size=size: size)
        torch.testing.assert_close(sdma_attention(q, k, v, p, p, 0.6), expected)
    assert taken == ["WholeMatrixAttention", "_SemanticMaskAttention"]
