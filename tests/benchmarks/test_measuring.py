"""Measurements of the benchmarks: memory to the byte, and contestants that do not fit into memory."""

import sys
from pathlib import Path

import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_peak_memory_is_counted_to_the_byte():
    from measuring import compare

    kept = torch.zeros(1000)
    calls = {"two at a time": lambda: kept.neg().neg().neg(), "one": lambda: kept.neg()}
    measured = compare(calls, repeats=3, device=torch.device("cpu"))
    assert {name: one.peak for name, one in measured.items()} == {"two at a time": 8000, "one": 4000}
    assert [len(one.seconds) for one in measured.values()] == [3, 3]


def test_who_runs_out_of_memory_takes_no_part():
    from measuring import compare

    def large() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    calls = {"large": large, "small": lambda: torch.zeros(10).neg()}
    measured = compare(calls, repeats=2, device=torch.device("cpu"))
    assert (measured["large"].seconds, measured["large"].cost) == ([], 0.0)
    assert len(measured["small"].seconds) == 2 and measured["small"].cost > 0


def test_the_cost_is_that_of_an_amount_of_one():
    from measuring import Measured

    assert Measured([3.0, 1.0, 8.0], amount=4.0).cost == 0.75


def test_the_conditions_name_command_processor_and_load(monkeypatch):
    import measuring

    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/length.py", "--seconds", "1 2"])
    command, _, line = measuring.conditions("3 rounds", torch.device("cpu"), dtype="bfloat16")
    assert command == "    python benchmarks/length.py --seconds '1 2'"
    assert f"1 CPU thread(s) of {measuring.cpu_name()}, bfloat16, torch 2." in line
    assert line.endswith(" CPUs; 3 rounds, CPU time of the process.")
