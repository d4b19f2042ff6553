"""Measurements of the benchmarks, their tables and files."""

import importlib

import pytest
import torch


def test_peak_memory_is_counted_to_the_byte_and_who_runs_out_of_it_takes_no_part():
    def large() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    kept = torch.zeros(1000)
    calls = {"two at a time": lambda: kept.neg().neg().neg(), "one": lambda: kept.neg(), "large": large}
    measured = importlib.import_module("measuring").compare(calls, repeats=3, device=torch.device("cpu"))
    assert {name: one.peak for name, one in measured.items() if one.seconds} == {"two at a time": 8000, "one": 4000}
    assert len(measured["one"].seconds) == 3 and measured["large"].cost == 0.0


def test_the_cost_is_for_an_amount_of_one():
    assert importlib.import_module("measuring").Measured([3.0, 1.0, 8.0], amount=4.0).cost == 0.75


@pytest.fixture
def row():
    """row(table, case, seconds of each contestant, peaks): a row with these measurements."""
    results = importlib.import_module("results")

    def make(table, case, seconds, peaks=(0, 0, 0)):
        pairs = zip(("espnet", "softmax", "sdma"), seconds, peaks, strict=False)
        return results.Row(table, case, {name: results.Measured([one], peak) for name, one, peak in pairs})

    return make


def test_rows_are_shown_and_compared_with_a_file(row, tmp_path, capsys):
    results = importlib.import_module("results")
    then = [row("A step: layers", "8, 250", (0.002, 0.001), (4e6, 1e6)), row("Gone", "1, 1", (1.0,))]
    assert results.show(iter(then), column="size") == then
    assert capsys.readouterr().out.splitlines()[3:6] == [
        "| size | espnet ms | softmax | espnet peak MB | softmax peak |",
        "|---|---|---|---|---|",
        "| 8, 250 | 2.0 | 0.50 | 4.0 | 0.25 |",
    ]
    results.write(tmp_path / "then.json", ["on this machine"], then)
    assert results.read(tmp_path / "then.json") == then
    now = [row("A step: layers", "8, 250", (4.0, 3.0, 6.0)), row("New", "1", (1.0,))]
    assert results.compared(then, now)[2:] == [
        "| case | softmax | sdma |",
        "|---|---|---|",
        "| A step: 8, 250 | 0.50, 0.75 | -, 1.50 |",
    ]


def test_a_lack_of_memory_ends_a_benchmark():
    results = importlib.import_module("results")
    with pytest.raises(SystemExit, match="too small for batch 64; give smaller --batches"):
        results.check_memory({"single": results.Measured([1.0]), "batch 64": results.Measured()}, "smaller --batches")
