"""Parts of the position term equal those of the whole."""

import pytest
import torch

from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.functional.sparse_patterns import BigBirdBlocks, Sliding

B, H, T, D = 2, 3, 11, 4
LENGTHS = torch.tensor([11, 6])


def term(batch=1, rows=2 * T - 1):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(B, H, T, D, generator=generator, dtype=torch.double)
    return PositionTerm(q, torch.randn(batch, H, rows, D, generator=generator, dtype=torch.double))


def test_the_matrix_goes_by_distance():
    given = term()
    matrix = given.matrix()
    for i in range(T):
        for j in range(T):
            expected = (given.q[:, :, i] * given.p[0, :, T - 1 - (i - j)]).sum(-1)
            torch.testing.assert_close(matrix[:, :, i, j], expected)


@pytest.mark.parametrize("batch", [1, B], ids=["all alike", "by sample"])
@pytest.mark.parametrize("rows", [2 * T - 1, T], ids=["by distance", "older encoders"])
@pytest.mark.parametrize(
    "pattern", [Sliding(2), Sliding(1, dilation=3), Sliding(0), BigBirdBlocks(2, random=2)], ids=str
)
def test_runs_are_parts_of_the_matrix(pattern, rows, batch):
    given, blocks = term(batch, rows), pattern.blocks(T, LENGTHS)
    parts = given.of_runs(blocks.queries, blocks.keys, blocks.stride)
    i, j = blocks.queries.unsqueeze(-1), blocks.keys.flatten(2).expand(B, -1, -1).unsqueeze(2)
    assert parts.shape == (B, H, *i.shape[:2], j.size(-1))
    inside = (i < T) & (j >= 0) & (j < T)
    matrix = given.matrix()
    for b in range(B):
        whole = matrix[b][:, i.clamp(max=T - 1), j[b].clamp(0, T - 1)]
        torch.testing.assert_close(parts[b][:, inside[b]], whole[:, inside[b]])
    assert inside.any()


def test_in_full_precision():
    from espnet_diverse.attention import Heads

    x = torch.randn(1, 1, T, D).bfloat16()
    heads = Heads(x, x, x, x, x, x, position_term=PositionTerm(x, x)).in_full_precision()
    assert heads.position_term.q.dtype == torch.float32 and heads.position_term.p is heads.position_term.q
