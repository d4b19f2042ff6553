"""The choice between blocks and a mask, and the positions of hypotheses side by side."""

import pytest
import torch

from espnet_diverse.attention import Heads, Inputs
from espnet_diverse.attention.cores import sparse
from espnet_diverse.attention.cores.sparse import sparse_attention
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.sparse_patterns import BigBirdBlocks, Sliding

B, H, T, D = 2, 2, 12, 3
PATTERNS = [Sliding(1, 2, (range(1),)), Sliding(1, 2, (range(1), range(7, 9))), BigBirdBlocks(1, 0, 1, 1)]


def heads(time=T, **options):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, time, H * D, generator=generator, dtype=torch.double)
    q, k, v = (torch.randn(B, H, time, D, generator=generator, dtype=torch.double) for _ in range(3))
    return Heads(q, k, v, x, x, q, Inputs(x, x, x), **options)


@pytest.fixture
def counted(monkeypatch):
    """The calls of attention in blocks."""
    calls, compute = [], sparse.block_sparse_attention

    def attention(*given):
        calls.append(given)
        return compute(*given)

    monkeypatch.setattr(sparse, "block_sparse_attention", attention)
    return calls


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_blocks_equal_a_mask(pattern, relative, counted):
    mask = torch.arange(T) < torch.tensor([12, 7]).view(B, 1, 1, 1)
    rows = torch.randn(1, H, 2 * T - 1, D, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    term = PositionTerm(heads().k, rows) if relative else None
    context, weights = sparse_attention(heads(mask=mask, position_term=term), pattern)
    assert weights is None and len(counted) == 1
    with_weights, weights = sparse_attention(heads(mask=mask, position_term=term, need_weights=True), pattern)
    assert len(counted) == 1
    torch.testing.assert_close(context, with_weights)
    i = torch.arange(T)
    allowed = pattern.allows(i.unsqueeze(1), i, torch.tensor([12, 7]).view(B, 1, 1, 1)) & mask
    assert torch.equal(weights > 0, allowed.expand(-1, H, -1, -1))


def test_a_short_sequence_is_computed_whole(counted):
    sparse_attention(heads(), Sliding(T))
    sparse_attention(heads(3), Sliding(2))
    assert not counted


def test_hypotheses_side_by_side_have_their_positions_from_the_mask():
    """Two hypotheses of five positions share the first two; their keys lie in the order of positions."""
    pattern, given = Sliding(1, 2, causal=True), heads(8)
    paths = [[0, 1, 2, 4, 6], [0, 1, 3, 5, 7]]
    mask = torch.zeros(1, 1, 2, 8, dtype=torch.bool)
    for hypothesis, path in enumerate(paths):
        mask[..., hypothesis, path] = True
    q = given.q[:, :, 6:]
    together, _ = sparse_attention(Heads(q, given.k, given.v, given.query, given.query, q, mask=mask), pattern)
    for hypothesis, path in enumerate(paths):
        own = [x[:, :, path] for x in (given.k, given.v)]
        last = q[:, :, hypothesis : hypothesis + 1]
        expected = torch.nn.functional.scaled_dot_product_attention(last, *(x[:, :, [2, 4]] for x in own))
        torch.testing.assert_close(together[:, :, hypothesis : hypothesis + 1], expected)


def test_without_a_mask_the_queries_are_the_last_positions():
    given, pattern = heads(), Sliding(2, causal=True)
    full, _ = sparse_attention(heads(mask=causal(T).view(1, 1, T, T)), pattern)
    q = given.q[:, :, -1:]
    last, _ = sparse_attention(Heads(q, given.k, given.v, given.query, given.query, q), pattern)
    torch.testing.assert_close(last, full[:, :, -1:])
