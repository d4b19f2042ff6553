"""What cross-attention reads of the encoder's output: the slots before the last segment, and that segment."""

import pytest
import torch
from torch.autograd import gradcheck

from espnet_diverse.attention import build_attention
from espnet_diverse.nets.memory import build_source_memory
from espnet_diverse.scope import scope

LENGTHS = torch.tensor([11, 8, 3])
CASES = {
    "cdt": {"kind": "cdt"},
    "cdt_fifo": {"kind": "cdt", "update": "fifo"},
    "xl": {"kind": "xl"},
    "mean": {"kind": "compressive", "slots": 2, "ratio": 2, "compression": "mean"},
    "max": {"kind": "compressive", "slots": 2, "ratio": 2, "compression": "max"},
}


def shortened(source, lengths, **memory):
    torch.manual_seed(0)
    module = build_source_memory(8, 2, {"segment": 4, "slots": 3} | memory).double().eval()
    return module(source, lengths, build_attention("softmax", 8, 2, cross=True).double())


def frames():
    torch.manual_seed(1)
    return torch.randn(3, 11, 8, dtype=torch.double)


def test_first_in_first_out_is_the_end_of_the_source():
    source = frames()
    found, counts = shortened(source, LENGTHS, kind="xl")
    assert counts.tolist() == [6, 7, 3] and found.shape == (3, 7, 8)
    for row, (first, last) in enumerate([(5, 11), (1, 8), (0, 3)]):
        assert torch.equal(found[row, : last - first], source[row, first:last])


def test_compressed_frames_stand_before_the_others():
    source = frames()
    found, counts = shortened(source, LENGTHS, **CASES["mean"])
    assert counts.tolist() == [3 + 2 + 3, 1 + 2 + 4, 3]
    pairs = source[0, :6].unflatten(0, (3, 2)).mean(1)
    torch.testing.assert_close(found[0, :8], torch.cat([pairs, source[0, 6:]]))


@pytest.mark.parametrize("memory", CASES.values(), ids=CASES)
def test_a_source_within_a_segment_stays_as_it_is(memory):
    source = frames()
    found, counts = shortened(source, LENGTHS, **memory, segment=12)
    assert torch.equal(counts, LENGTHS)
    for row, length in enumerate(LENGTHS):
        assert torch.equal(found[row, :length], source[row, :length])


@pytest.mark.parametrize("memory", CASES.values(), ids=CASES)
def test_padding_and_other_sources_change_nothing(memory):
    source = frames()
    found, counts = shortened(source, LENGTHS, **memory)
    for row, length in enumerate(LENGTHS):
        alone, count = shortened(source[row : row + 1, :length], length.view(1), **memory)
        assert count == counts[row] == alone.size(1)
        torch.testing.assert_close(alone[0], found[row, :count], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["xl", "cdt_fifo", "mean", "max"])
def test_the_gradients_match_differences(name):
    """Those of CDT's scores are straight-through, see `test_cdt.py`."""
    assert gradcheck(lambda source: shortened(source, LENGTHS, **CASES[name])[0], frames().requires_grad_())


def test_the_losses_of_a_memory_count():
    with scope() as shared:
        shortened(frames(), LENGTHS, **CASES["cdt"])
    assert shared.losses().keys() == {"memory_nce", "memory_constraint"}
    assert shared.stats()["memory_slots"] == 3
