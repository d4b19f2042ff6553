"""Patterns equal loops, blocks hold every allowed pair once, and padding changes nothing."""

from dataclasses import replace

import pytest
import torch
from references import efficient as oracle

from espnet_diverse.functional.sparse_patterns import BigBirdBlocks, Grouped, Sliding

PATTERNS = [
    Grouped(3),
    Grouped(4, strided=True),
    Sliding(0),
    Sliding(2),
    Sliding(2, global_runs=(range(3),)),
    Sliding(2, global_runs=(range(1), range(5, 7), range(12, 13))),
    Sliding(1, dilation=3, global_runs=(range(4, 6),)),
    Sliding(2, global_runs=(range(2), range(9, 10)), causal=True),
    Sliding(1, dilation=3),
    Sliding(2, dilation=2, global_runs=(range(1),)),
    Sliding(3, causal=True),
    Sliding(2, dilation=2, global_runs=(range(2),), causal=True),
    Sliding(100, dilation=2),
    Sliding(1, dilation=100),
    Grouped(100),
    Grouped(100, strided=True),
    BigBirdBlocks(2),
    BigBirdBlocks(1, window=0, first=0, random=2, seed=5),
    BigBirdBlocks(3, window=1, first=0, random=0),
    BigBirdBlocks(2, window=0, first=2, random=4),
    BigBirdBlocks(2, random=2, causal=True),
    BigBirdBlocks(100),
]
each_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


def looped(pattern, time):
    """The pairs that a pattern allows in a sequence of its own, without later keys if it is causal."""
    if isinstance(pattern, Grouped):
        alike = (lambda i: i % pattern.size) if pattern.strided else (lambda i: i // pattern.size)
        return torch.tensor([[alike(i) == alike(j) for j in range(time)] for i in range(time)])
    given = dict(vars(pattern))
    mask = oracle.window_mask if isinstance(pattern, Sliding) else oracle.bigbird_mask
    return torch.tensor(mask(time, **given))


def pairs(pattern, time, lengths):
    """The pairs (B, T, T) that `allows` allows."""
    i = torch.arange(time)
    return pattern.allows(i.unsqueeze(1), i, lengths.view(-1, 1, 1)).expand(len(lengths), -1, -1)


def listed(pattern, time, lengths):
    """How often the blocks list each pair, (B, T, T)."""
    blocks = pattern.blocks(time, lengths)
    count = torch.zeros(len(lengths), time, time, dtype=torch.int64)
    for b in range(len(lengths)):
        for queries, keys in zip(blocks.queries, blocks.keys[min(b, len(blocks.keys) - 1)].flatten(1), strict=True):
            for i in queries[queries < time]:
                near = keys[(keys >= 0) & (keys < time)]
                if blocks.reach is not None:
                    near = near[(near - i).abs() <= blocks.reach]
                count[b, i] += torch.bincount(near, minlength=time)
    for run in blocks.global_runs:
        count[:, :, run.start : run.stop] = 1
    for run in blocks.open_rows:
        count[:, run.start : run.stop] = 1
    return count


@each_pattern
@pytest.mark.parametrize("time", [1, 2, 7, 20])
def test_pairs_equal_loops(pattern, time):
    seen = pairs(pattern, time, torch.tensor([time]))[0]
    assert torch.equal(seen.tril() if pattern.causal else seen, looped(pattern, time))


@each_pattern
@pytest.mark.parametrize("time", [1, 2, 7, 20])
def test_blocks_list_each_pair_once(pattern, time):
    lengths = torch.tensor([time])
    count, seen = listed(pattern, time, lengths)[0], pairs(pattern, time, lengths)[0]
    if pattern.causal:
        count, seen = count.tril(), seen.tril()
    assert torch.equal(count, seen.long())
    assert pattern.blocks(time, lengths).queries[:, 0].tolist() == sorted(
        pattern.blocks(time, lengths).queries[:, 0].tolist(), key=lambda i: (i % pattern_stride(pattern), i)
    )


def pattern_stride(pattern):
    return pattern.size if getattr(pattern, "strided", False) else getattr(pattern, "dilation", 1)


@each_pattern
def test_padding_changes_no_pair_of_a_shorter_sequence(pattern):
    lengths = torch.tensor([20, 13, 4, 1])
    for given in (pairs, listed):
        together = given(pattern, 20, lengths)
        for b, n in enumerate(lengths.tolist()):
            alone = given(pattern, n, lengths[b : b + 1])[0]
            mine = together[b, :n, :n]
            assert torch.equal(mine.tril(), alone.tril())
            assert pattern.causal or torch.equal(mine, alone)


def test_random_blocks_are_new_distinct_and_of_the_sequence():
    pattern, count = BigBirdBlocks(4, window=2, first=3, random=5, seed=1), torch.tensor(40)
    blocks = torch.arange(40)
    drawn = pattern.drawn(blocks, count)
    assert ((drawn >= 3) & (drawn < 40) & ((drawn - blocks.unsqueeze(1)).abs() > 2)).all()
    assert (drawn.diff(dim=1) > 0).all()
    assert torch.equal(drawn, pattern.drawn(blocks, count))
    assert (drawn != BigBirdBlocks(4, window=2, first=3, random=5, seed=2).drawn(blocks, count)).any()


def test_random_blocks_are_spread_evenly():
    drawn = BigBirdBlocks(1, window=0, first=0, random=4).drawn(torch.arange(2000), torch.tensor(2000))
    parts = (drawn * 10 // 2000).flatten().bincount()
    assert len(parts) == 10 and parts.min() > 700 and parts.max() < 900  # 800 expected, with a deviation of 20


@pytest.mark.parametrize(
    "pattern",
    [Sliding(8, global_runs=(range(2), range(9, 10))), Sliding(8, dilation=4), Grouped(8), BigBirdBlocks(8)],
    ids=str,
)
def test_scores_grow_linearly(pattern):
    scores = [pattern.blocks(time, torch.tensor([time])).scores() for time in (1024, 2048, 4096)]
    assert scores == [scores[0], 2 * scores[0], 4 * scores[0]]


def test_strided_groups_have_an_equal_share_of_all_pairs():
    for time in (512, 2048):
        assert Grouped(16, strided=True).blocks(time, torch.tensor([time])).scores() == time * time // 16


@pytest.mark.parametrize(
    "pattern",
    [Sliding(1, dilation=2**20), Grouped(2**20), Grouped(2**20, strided=True), BigBirdBlocks(2**20)],
    ids=str,
)
def test_blocks_longer_than_the_sequence_cost_as_much_as_the_sequence(pattern):
    same = replace(pattern, **{"dilation" if isinstance(pattern, Sliding) else "size": 20})
    lengths = torch.tensor([20])
    assert pattern.blocks(20, lengths).scores() == same.blocks(20, lengths).scores()
