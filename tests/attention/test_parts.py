"""Attention over long sequences in parts equals attention over the whole, for every core of linear cost."""

import pytest
import torch

from espnet_diverse.attention import CORES, build_attention, parts
from espnet_diverse.scope import scope

SIZE, HEADS, TIME = 8, 2, 61
LENGTHS = torch.tensor([61, 37, 3])
CASES = {
    "window": {"window": 3},
    "window:dilated": {"window": 2, "dilation": 3},
    "window:global": {"window": 2, "global_tokens": 1},
    "window:chosen": {"window": 2, "global_tokens": [5, 40]},
    "window:wide": {"window": 2**20},
    "luna": {"length": 5},
    "luna:untied": {"length": 4, "tied": False, "pack_heads": 4},
    "bigbird": {"block_size": 2},
    "lambda_attention": {},
    "random_features": {"n_features": 16},
    "linformer": {"compressed_length": 3, "max_length": TIME},
    "reformer": {"chunk_size": 4, "half_buckets": 2},
}
IN_PARTS = ("window", "window:dilated", "luna", "luna:untied")


def build(case, **options):
    torch.manual_seed(0)
    return build_attention(case.split(":")[0], SIZE, HEADS, **CASES[case], **options).double().eval()


def called(module, x, *rest, monkeypatch, part=8):
    """The output in parts, and the numbers of positions of the queries that were projected."""
    seen = []
    hook = module.linear_q.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    monkeypatch.setattr(parts, "PART", part)
    with torch.no_grad():
        out = module(x, x, x, *rest)
    hook.remove()
    return out, seen


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(3, TIME, SIZE, dtype=torch.double)


def test_every_core_of_linear_cost_is_tested():
    assert {name for name, core in CORES.items() if core.linear} == {case.split(":")[0] for case in CASES}


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_parts_equal_the_whole(case, padded, x, monkeypatch):
    module, mask = build(case), (torch.arange(TIME) < LENGTHS[:, None, None]) if padded else None
    whole = module(x, x, x, mask)
    found, seen = called(module, x, mask, monkeypatch=monkeypatch)
    assert (max(seen) <= 8 + 2 * 6) == (case in IN_PARTS)  # a window reaches 6 positions at most
    for row, length in enumerate(LENGTHS if padded else [TIME] * 3):
        torch.testing.assert_close(found[row, :length], whole[row, :length], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", ["window", "window:dilated"])
def test_parts_with_relative_position_equal_the_whole(case, x, monkeypatch):
    module = build(case, relative=True)
    rest = torch.randn(1, 2 * TIME - 1, SIZE, dtype=torch.double), torch.arange(TIME) < LENGTHS[:, None, None]
    whole = module(x, x, x, *rest)
    found, seen = called(module, x, *rest, monkeypatch=monkeypatch)
    assert len(seen) == 8
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], whole[row, :length], rtol=1e-10, atol=1e-10)


def test_calls_that_need_the_whole_sequence_are_not_split(x, monkeypatch):
    window, causal = build("window"), torch.ones(1, TIME, TIME, dtype=torch.bool).tril()
    assert called(window, x, causal, monkeypatch=monkeypatch)[1] == [TIME]
    with scope(keep_attention=True, collect=False):
        assert called(window, x, None, monkeypatch=monkeypatch)[1] == [TIME] and window.attn is not None
    with scope():
        assert called(window, x, None, monkeypatch=monkeypatch)[1] == [TIME]
    legacy = build("window", relative=True), torch.randn(1, TIME, SIZE, dtype=torch.double)
    assert called(legacy[0], x, legacy[1], None, monkeypatch=monkeypatch)[1] == [TIME]
    assert called(build("luna", causal=True), x, causal, monkeypatch=monkeypatch)[1] == [TIME]
    assert called(window.train(), x, None, monkeypatch=monkeypatch)[1] == [TIME]


def test_gradients_match_the_whole(x, monkeypatch):
    monkeypatch.setattr(parts, "PART", 8)
    module, seen = build("luna"), []
    module.linear_q.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    module(x, x, x, None).sum().backward()
    assert seen == [TIME]


def test_slices_cover_a_sequence(monkeypatch):
    monkeypatch.setattr(parts, "PART", 8)
    assert list(parts.slices(17)) == [slice(0, 8), slice(8, 16), slice(16, 17)]
    assert list(parts.slices(17, 3)) == [slice(0, 6), slice(6, 12), slice(12, 17)]
    assert list(parts.slices(17, 9)) == [slice(0, 9), slice(9, 17)]
    assert not parts.is_long(8) and parts.is_long(9) and not parts.is_long(12, 2)
