"""Cost of an encoder against length: what is measured, in which order, and what is left out because of its memory."""

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.teacher_forcing import load
from espnet_diverse.analysis.windows import lengths
from espnet_diverse.analysis.windows.encoder_heads import encoder_heads
from espnet_diverse.analysis.windows.lengths import AFTER, BEFORE, Cost, measure_lengths
from espnet_diverse.runs.operations import Counts

WIDTHS = np.full((2, 2), 2)


def test_windows_save_operations_and_memory_of_long_audio(conformer):
    threads = torch.get_num_threads()
    short, long = measure_lengths(load(conformer)[0], WIDTHS, 16_000, [60, 1])
    assert (short.seconds, long.seconds) == (1, 60) and torch.get_num_threads() == threads
    assert 28 < short.positions < 32 and 1870 < long.positions < 1876  # of 32 ms
    assert not short.left_out and not long.left_out
    for cost in (short, long):
        assert {name: len(times) for name, times in cost.times.items()} == {BEFORE: 5, AFTER: 5}
        assert min(map(min, cost.times.values())) > 0
    assert long.counts[AFTER].flops < 0.2 * long.counts[BEFORE].flops
    assert long.memory_ratio() < 0.2 and long.time_ratio() < 1


def test_encoders_take_turns(conformer, monkeypatch):
    model = load(conformer)[0]
    order = []
    first = encoder_heads(model)[0]
    first.register_forward_pre_hook(lambda *_: order.append(first.patterns is not None))
    measure_lengths(model, WIDTHS, 16_000, [0.5])
    assert order == [False, True] + [False, True, True, False] * 2 + [False, True]


def test_what_does_not_fit_into_memory_is_left_out(conformer, monkeypatch):
    monkeypatch.setattr(lengths, "_free", lambda: 2e6)
    costs = measure_lengths(load(conformer)[0], WIDTHS, 16_000, [1, 2, 8])
    assert BEFORE in costs[0].counts and BEFORE not in costs[2].counts
    assert costs[2].left_out[BEFORE].startswith("a pass would need about 0 GB by the shorter lengths, and 0 GB are")
    assert costs[2].time_ratio() is None and costs[2].memory_ratio() is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [([], None), ([(10, 5.0)], 20.0), ([(5, 10.0), (10, 20.0)], 40.0), ([(5, 25.0), (10, 100.0)], 400.0)],
)
def test_memory_is_expected_to_grow_as_between_shorter_lengths(known, expected):
    found = lengths._expected_peak(20, known)
    assert found == expected or found == pytest.approx(expected)


def test_free_memory_is_read_from_the_system(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    3 kB\n")
    monkeypatch.setattr(lengths.portable, "PROC", tmp_path)
    assert lengths._free() == 3072
    monkeypatch.setattr(lengths.portable, "PROC", tmp_path / "none")
    assert lengths._free() == float("inf")


def test_ratios_are_of_medians():
    counts = {BEFORE: Counts(peak=4), AFTER: Counts(peak=1)}
    cost = Cost(1, times={BEFORE: [2, 8, 4], AFTER: [9, 1, 2]}, counts=counts)
    assert cost.time_ratio() == 0.5 and cost.memory_ratio() == 0.25


def test_a_length_that_the_model_cannot_read_is_told(conformer):
    (cost,) = measure_lengths(load(conformer)[0], WIDTHS, 16_000, [0.01])
    assert "too short" in cost.left_out[""] and not cost.times
