"""The benchmark at a tiny size: complete tables; times are not judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from espnet_diverse import allocator

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "attention.py"
CONTESTANTS = ["espnet", "espnet_default", "softmax", "sma", "sdma"]


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
    head = ["B, T", "espnet ms", *CONTESTANTS[1:], "espnet peak MB", *(f"{name} peak" for name in CONTESTANTS[1:])]
    for (first, *lines), expected in zip(found.values(), cases, strict=True):
        assert first == head
        assert [line[0] for line in lines] == expected
        assert all(float(cell) > 0 for line in lines for cell in line[1:])

    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 7
    for row in rows:
        assert list(row["measured"]) == CONTESTANTS
        assert all(len(one["seconds"]) == 2 and one["peak"] > 0 for one in row["measured"].values())


def test_attention_is_computed_by_the_kernels_of_training(monkeypatch, capsys):
    import attention

    used, compare = [], attention.measuring.compare
    monkeypatch.setattr(
        attention.measuring,
        "compare",
        lambda *given: used.append(torch.backends.cuda.cudnn_sdp_enabled()) or compare(*given),
    )
    attention.main(["--times", "6", "--tokens", "6", "--repeats", "1", "--contestants", "softmax"])
    assert used == [False] * 3 and torch.backends.cuda.cudnn_sdp_enabled()


def test_memory_is_not_said_to_be_kept_without_glibc(monkeypatch):
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
    import attention

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        attention.main(options)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_contestants_can_be_left_out_and_the_first_is_the_base(tiny_step, capsys):
    import attention

    size = ["--times", "--steps", tiny_step, "--step_time", "12", "--utterances", "1", "--repeats", "1"]
    attention.main([*size, "--contestants", "softmax", "sdma"])
    head, row = next(iter(tables(capsys.readouterr().out).values()))
    assert head == ["B, T", "softmax ms", "sdma", "softmax peak MB", "sdma peak"] and float(row[2]) > 0


def test_it_runs_as_a_program():
    run = [sys.executable, str(SCRIPT), "--times", "6", "--tokens", "6", "--repeats", "1"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [cells[0] for lines in tables(done.stdout).values() for cells in lines] == ["B, T", "1, 6"] * 3
