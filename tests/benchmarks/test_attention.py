"""The benchmark at a tiny size: complete tables; times are not judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from espnet_diverse import allocator

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "attention.py"
CONTESTANTS = ["espnet", "softmax", "sma", "sdma"]


def tables(markdown: str) -> dict[str, list[list[str]]]:
    """Heading -> lines of cells, the head first, of the Markdown tables in `markdown`."""
    found = {}
    for line in markdown.splitlines():
        if line.startswith("**"):
            cells = found[line.strip("*").split(":")[0]] = []
        elif line.startswith("| "):
            cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_tables_are_complete(tmp_path, tiny_step, capsys):
    import attention

    output = tmp_path / "results.json"
    size = ["--times", "6", "9", "--tokens", "18", "--steps", tiny_step, "--step_time", "12", "--utterances", "2"]
    attention.main([*size, "--repeats", "2", "--output", str(output)])
    command, _, circumstances, *rest = capsys.readouterr().out.splitlines()
    assert command.strip().startswith("python ")
    assert f"1 CPU thread(s) of {attention.measuring.cpu_name()}, float32, torch 2." in circumstances

    found = tables("\n".join(rest))
    modes = ["evaluation forward", "training forward", "training forward + backward"]
    assert list(found) == [f"One attention module, {mode}" for mode in modes] + ["A training step"]
    cases = [["3, 6", "2, 9"]] * 3 + [[f"{tiny_step}: 2, 12"]]
    head = ["B, T", "ESPnet ms", *CONTESTANTS[1:], "ESPnet peak MB", *(f"{name} peak" for name in CONTESTANTS[1:])]
    for (first, *lines), expected in zip(found.values(), cases, strict=True):
        assert first == head
        assert [line[0] for line in lines] == expected
        assert all(float(cell) > 0 for line in lines for cell in line[1:])

    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 7
    for row in rows:
        assert list(row["measured"]) == CONTESTANTS
        assert all(len(one["seconds"]) == 2 and one["peak"] > 0 for one in row["measured"].values())


def test_ratios_are_compared_with_those_of_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import attention

    def measured(*medians):
        return {name: attention.measuring.Measured([one]) for name, one in zip(CONTESTANTS, medians, strict=False)}

    then = [
        attention.Row("A step: layers", "8, 250", measured(2.0, 1.0, 3.0)),
        attention.Row("Gone", "1, 1", measured(1)),
    ]
    attention._save(tmp_path / "then.json", [], then)
    now = [
        attention.Row("A step: layers", "8, 250", measured(4.0, 3.0, 5.0, 6.0)),
        attention.Row("New", "1", measured(1)),
    ]
    lines = attention._compared(attention._read(tmp_path / "then.json"), now)
    assert lines[2:] == [
        "| B, T | softmax | sma | sdma |",
        "|---|---|---|---|",
        "| A step: 8, 250 | 0.50, 0.75 | 1.50, 1.25 | -, 1.50 |",
    ]
    assert attention._compared(then[1:], now) == ["No case of the file was measured now."]
    with pytest.raises(SystemExit):
        attention.main(["--compare", str(tmp_path / "none.json")])
    assert "none.json: no such file; --output of an earlier run writes one" in capsys.readouterr().err


def test_peak_memory_is_counted_to_the_byte(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    from measuring import compare

    kept = torch.zeros(1000)
    calls = {"two at a time": lambda: kept.neg().neg().neg(), "one": lambda: kept.neg()}
    measured = compare(calls, repeats=3, device=torch.device("cpu"))
    assert {name: one.peak for name, one in measured.items()} == {"two at a time": 8000, "one": 4000}
    assert [len(one.seconds) for one in measured.values()] == [3, 3]


def test_memory_is_not_said_to_be_kept_without_glibc(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import attention

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    with pytest.raises(SystemExit, match="--keep_memory needs glibc, whose malloc can be told to keep what is freed"):
        attention.main(["--keep_memory", "--times"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--times", "0"], "argument --times: 0 is not a whole number above 0"),
        (["--steps", "1x1"], "argument --steps: invalid choice: '1x1'"),
        (["--device", "cuda"], "--device cuda is not possible: PyTorch sees no GPU on this machine"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, message, monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import attention

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        attention.main(options)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_it_runs_as_a_program():
    run = [sys.executable, str(SCRIPT), "--times", "6", "--tokens", "6", "--repeats", "1"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [cells[0] for lines in tables(done.stdout).values() for cells in lines] == ["B, T", "1, 6"] * 3
