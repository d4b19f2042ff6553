"""The check of values, with the kernels of the CPU and with one that is wrong."""

import importlib

import pytest
import torch


@pytest.fixture
def values():
    """The program."""
    return importlib.import_module("values")


def cells(printed):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if line[:2] == "| "]


@pytest.mark.slow
def test_the_kernels_of_the_cpu_pass(values, tmp_path, capsys):
    assert values.main(["--output", str(tmp_path / "check.json")]) == 0
    _, *rows = cells(capsys.readouterr().out)
    assert {row[0] for row in rows} == {"rows without keys", "attention", "memory", "tf32"}
    assert all(row[-1] == "passed" for row in rows) and len(rows) > 2 * len(values.CORES)
    assert (tmp_path / "check.json").is_file()


def test_a_kernel_that_gives_nan_or_small_values_for_rows_without_keys_fails(values, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(values, "attentions", lambda device: iter(()))
    right = values.fused_attention
    for wrong in (torch.nan, 1e-9):
        added = torch.tensor(wrong)
        monkeypatch.setattr(values, "fused_attention", lambda q, k, v, mask, added=added: right(q, k, v, mask) + added)
        assert values.main(["--output", str(tmp_path / "check.json")]) == 1
        _, *rows = cells(capsys.readouterr().out)
        assert {row[-1] for row in rows if row[0] == "rows without keys"} == {"FAILED"}
    assert not (tmp_path / "check.json").exists()


def test_without_a_gpu_one_line_says_so(values, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="^nothing was checked: PyTorch sees no GPU on this machine$"):
        values.main(["--device", "cuda"])
