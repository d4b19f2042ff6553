"""Options that all memories share, and how a memory runs through segments."""

import pytest
import torch

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.redundancy import diversity_radius
from espnet_diverse.nets.memory.base import Memory, MemoryOptions, Slots, empty, joined
from espnet_diverse.scope import scope


class Counting(Memory):
    """Remembers the sum of all valid frames, and notes the arguments of its losses."""

    def begin(self, batch, like):
        return empty(batch, 1, self.size, like)

    def slots(self, state):
        return state

    def update(self, state, code, valid):
        (segment,) = code
        total = state.values + (segment * valid.unsqueeze(-1)).sum(1, keepdim=True)
        return Slots(total, torch.ones_like(state.valid))

    def losses(self, states, code, valid, attention):
        self.given = len(states), attention, [state.values.requires_grad for state in states]


def run(x, valid=None, state=None):
    memory = Counting(4, 2, MemoryOptions(segment=2, slots=1))
    valid = torch.ones(x.shape[:3], dtype=torch.bool) if valid is None else valid
    return memory, memory.read(x, valid, "the attention", state)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"segment": 0}, "segment must be at least 1, but is 0"),
        ({"slots": 0}, "slots must be at least 1, but is 0"),
        ({"slots": 2.5}, "slots must be a whole number, but is 2.5"),
        ({"scope": "net"}, "scope must be one of layer shared, but is 'net'"),
    ],
)
def test_wrong_options_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        MemoryOptions(**options)


def test_a_segment_reads_the_memory_of_earlier_segments():
    x = torch.randn(2, 3, 2, 4)
    _, (slots, state) = run(x)
    sums = x.sum(2).cumsum(1)  # after each segment
    assert slots.valid[..., 0].tolist() == [[False, True, True]] * 2
    torch.testing.assert_close(slots.values[:, 1:, 0], sums[:, :2])
    torch.testing.assert_close(state.values[:, 0], sums[:, 2])


def test_a_state_continues_a_sequence():
    x = torch.randn(2, 3, 2, 4)
    _, (whole, _) = run(x)
    _, (_, state) = run(x[:, :2])
    _, (rest, _) = run(x[:, 2:], state=state)
    assert torch.equal(rest.values, whole.values[:, 2:])


def test_carried_state_is_detached_but_not_for_the_losses():
    x = torch.randn(2, 3, 2, 4).requires_grad_()
    with scope():
        memory, (slots, state) = run(x)
    assert not slots.values.requires_grad and not state.values.requires_grad
    assert memory.given == (4, "the attention", [False, True, True, True])


def test_statistics_are_means_over_segments_that_are_no_padding():
    x, valid = torch.randn(2, 3, 2, 4), torch.ones(2, 3, 2, dtype=torch.bool)
    valid[1, 1:] = False
    with scope() as shared:
        run(x, valid)
    assert shared.stats() == {"memory_slots": 1.0, "memory_diversity": 0.0}
    with scope(collect=False) as shared:
        run(x, valid)
    assert shared.stats() == {}


def test_slots_are_joined_and_cut():
    first, second = (Slots(torch.randn(2, n, 3), torch.rand(2, n) < 0.5) for n in (2, 3))
    both = joined(first, second)
    assert both.values.shape == (2, 5, 3) and both.valid.shape == (2, 5)
    for found, expected in zip(both.cut(None, 2) + both.cut(2, None), first + second, strict=True):
        assert torch.equal(found, expected)
    nothing = empty(2, 4, 3, first.values)
    assert diversity_radius(nothing.values, valid=nothing.valid).tolist() == [0, 0]


def test_the_diversity_of_slots_in_half_precision_matches_their_numbers():
    torch.manual_seed(0)
    values = (5 + torch.rand(2, 8, 4)).bfloat16()  # close together: of their deviations half precision leaves little
    filled, used = torch.ones(2, 8, dtype=torch.bool), torch.ones(2, 1, dtype=torch.bool)
    with scope() as shared:
        Counting(4, 2, MemoryOptions())._statistics([Slots(values, filled)], used)
    torch.testing.assert_close(shared.stats()["memory_diversity"], diversity_radius(values.float()).mean())
