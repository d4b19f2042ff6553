"""The first-in first-out memory: the golden array, padding, gradients."""

import torch
from references.golden import golden

from espnet_diverse.nets.memory.base import MemoryOptions, Slots
from espnet_diverse.nets.memory.xl import XLMemory

GOLDEN = golden("xl_compressive")


def test_it_equals_the_golden_array():
    memory = XLMemory(4, 2, MemoryOptions(segment=4, slots=8))
    full = torch.ones(2, 8, dtype=torch.bool)
    state = memory.update(Slots(GOLDEN["mem"], full), [GOLDEN["seg"]], full[:, :4])
    torch.testing.assert_close(state.values, GOLDEN["new_mem"], rtol=1e-10, atol=1e-10)
    assert state.valid.all()


def test_padding_does_not_push_frames_out():
    memory = XLMemory(4, 2, MemoryOptions(segment=3, slots=4))
    x, valid = torch.randn(1, 3, 3, 4), torch.ones(1, 3, 3, dtype=torch.bool)
    valid[0, 1, 1:] = valid[0, 2] = False  # 4 frames
    slots, state = memory.read(x, valid, None, None)
    frames = torch.cat([x[0, 0], x[0, 1, :1]])
    assert slots.valid.sum(-1).tolist() == [[0, 3, 4]]
    assert torch.equal(state.values[0], frames) and state.valid.all()


def test_no_gradient_passes_to_earlier_segments():
    memory = XLMemory(4, 2, MemoryOptions(segment=3, slots=4))
    x = torch.randn(2, 3, 3, 4).requires_grad_()
    slots, _ = memory.read(x, torch.ones(2, 3, 3, dtype=torch.bool), None, None)
    assert not slots.values.requires_grad and not list(memory.parameters())
