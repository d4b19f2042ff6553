"""Patterns of heads against loops, and their attention against the softmax over all pairs."""

import pytest
import torch
import torch.nn.functional as F
from references.golden import golden

from espnet_diverse.functional.head_patterns import (
    ONE_KEY,
    _in_blocks,
    allowed_pairs,
    ends_attention,
    one_key_attention,
    triangular_attention,
)

TIME, LENGTHS = 6, [6, 4]
LOOPS = {
    "global": lambda i, j, n: True,
    "window": lambda i, j, n: abs(i - j) <= 2,
    "block": lambda i, j, n: i // 2 == j // 2,
    "strided": lambda i, j, n: (i - j) % 2 == 0,
    "ends": lambda i, j, n: j % 2 == 1 or j == i,
    "forward": lambda i, j, n: j <= i,
    "backward": lambda i, j, n: j >= i,
    "previous": lambda i, j, n: j == max(i - 1, 0),
    "next": lambda i, j, n: j == min(i + 1, n - 1),
    "start": lambda i, j, n: j == 0,
    "end": lambda i, j, n: j == n - 1,
}


def allowed(name, time=TIME, lengths=LENGTHS, width=2, last=1):
    """(B, T, T)."""
    i, n = torch.arange(time), torch.tensor(lengths).view(-1, 1, 1)
    return allowed_pairs(name, i.unsqueeze(-1), i, n, width, last).expand(len(lengths), time, time)


def heads(time=TIME, width=3):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, 2, time, width, generator=generator, dtype=torch.double, requires_grad=True) for _ in range(3)
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_allowed_pairs_match_loops(name):
    found = allowed(name)
    for b, n in enumerate(LENGTHS):
        for i in range(n):
            assert found[b, i, :n].tolist() == [LOOPS[name](i, j, n) for j in range(n)]
            assert found[b, i, :n].any()


@pytest.mark.parametrize(("size", "last"), [(3, 2), (4, 3), (4, 4), (9, 5)])
def test_ends_have_several_positions_of_a_block(size, last):
    found = allowed("ends", 8, [8], size, last)[0]
    ends = [j for start in range(0, 8, size) for j in range(start, start + size)[size - last :]]
    assert found.tolist() == [[j in ends or j == i for j in range(8)] for i in range(8)]


@pytest.mark.parametrize("bidirectional", [1, 0])
def test_the_fixed_pattern_is_that_of_fairseq_but_at_the_starts_of_blocks(bidirectional):
    """Child et al. 2019, section 4.3, with l = 4, c = 2 and both heads merged; fairseq's blocks share a position."""
    expected = golden("sparse_masks")[f"fairseq_sparse_stride4_expr2_bidir{bidirectional}"]
    found = (allowed("block", 20, [20], 4) | allowed("ends", 20, [20], 4, 2))[0]
    found = found if bidirectional else found.tril()
    i = torch.arange(20)
    starts = (i % 4 == 0) & (i > 0)
    elsewhere = ~starts & ~starts.unsqueeze(1)
    assert torch.equal(found[elsewhere], expected[elsewhere])
    after = (i.unsqueeze(1) - i >= 4) & starts  # keys that are also the last of the block before
    assert expected[after].all() and not found[after & ~starts.unsqueeze(1)].any()


@pytest.mark.parametrize("masked", ["none", "padding", "pairs"])
@pytest.mark.parametrize(
    ("name", "size", "last"),
    [*((name, 2, 1) for name in [*ONE_KEY, "forward", "backward", "ends"])]
    + [("ends", *pair) for pair in ((TIME + 3, 1), (3, 2), (4, 3), (4, 4), (TIME + 3, 5))],
)
def test_attention_of_a_pattern_is_softmax_over_its_pairs(name, size, last, masked, monkeypatch):
    monkeypatch.setattr("espnet_diverse.functional.head_patterns._BLOCK", 4)
    q, k, v = heads()
    lengths = [TIME, TIME] if masked == "none" else LENGTHS
    mask = {
        "none": None,
        "padding": torch.arange(TIME) < torch.tensor(LENGTHS).view(2, 1, 1, 1),
        "pairs": torch.rand(2, 1, TIME, TIME, generator=torch.Generator().manual_seed(1)) < 0.7,
    }[masked]
    pairs = allowed(name, lengths=lengths, width=size, last=last).unsqueeze(1)
    expected = F.scaled_dot_product_attention(q, k, v, pairs if mask is None else pairs & mask)
    if name in ONE_KEY:
        found = one_key_attention(name, v, torch.tensor(lengths), mask)
    elif name == "ends":
        found = ends_attention(q, k, v, size, last, mask)
        if masked == "pairs":  # without any key a query has no meaning here, and 0 there
            some = (pairs & mask).any(-1)[:, 0]
            found = torch.where(some[:, None, :, None], found, expected)
    else:
        found = triangular_attention(q, k, v, name == "forward", mask)
        torch.testing.assert_close(_in_blocks(q, k, v, name == "forward", mask, 0.0), expected)
    for b, n in enumerate(lengths):
        torch.testing.assert_close(found[b, :, :n], expected[b, :, :n])


def test_gradients():
    q, k, v = heads(5, 2)
    mask = torch.arange(5) < torch.tensor([5, 3]).view(2, 1, 1, 1)
    assert torch.autograd.gradcheck(lambda *x: triangular_attention(*x, True, mask), (q, k, v))
    assert torch.autograd.gradcheck(lambda *x: ends_attention(*x, 3, 2, mask), (q, k, v))
    for name in ONE_KEY:
        assert torch.autograd.gradcheck(lambda x, name=name: one_key_attention(name, x, torch.tensor([5, 3]), mask), v)


def test_dropout_is_computed_in_blocks():
    torch.manual_seed(0)
    q, k, v = (x.detach() for x in heads())
    dropped = triangular_attention(q, k, v, True, dropout=0.5)
    assert not torch.allclose(dropped, triangular_attention(q, k, v, True))
    alone = dropped[:, :, 0] / v[:, :, 0]  # its own key, kept and doubled, or dropped
    assert set(alone.round(decimals=6).unique().tolist()) == {0.0, 2.0}


def test_dropout_removes_the_one_key_of_a_query():
    torch.manual_seed(0)
    v = heads()[2].detach()
    dropped = one_key_attention("previous", v, torch.tensor([TIME]), dropout=0.5)
    kept = one_key_attention("previous", v, torch.tensor([TIME]))
    gone = (dropped == 0).all(-1)
    assert 0 < gone.sum() < gone.numel()
    torch.testing.assert_close(dropped[~gone], 2 * kept[~gone])
