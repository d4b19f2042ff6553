"""The benchmark of lengths at a tiny size: complete tables, JSON and plot; times are not judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "length.py"
TINY = ["--layers", "1", "--width", "8", "--heads", "2", "--units", "8", "--repeats", "1"]


@pytest.mark.parametrize("encoder", ["diverse_transformer", "diverse_conformer"])
def test_tables_file_and_plot_are_complete(encoder, tmp_path, capsys):
    import length

    output, plot = tmp_path / "length.json", tmp_path / "length.png"
    size = [*TINY, "--encoder", encoder, "--seconds", "1", "3", "--quadratic_limit", "1"]
    length.main([*size, "--cores", "espnet", "softmax", "window", "--output", str(output), "--plot", str(plot)])
    tables = [line for line in capsys.readouterr().out.splitlines() if line[:1] in ("*", "|")]
    head = "| seconds of audio | espnet | softmax | window |"
    assert [tables[i] for i in (0, 1, 5, 6)] == ["**Seconds of computation**", head, "**Peak memory, MB**", head]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in (*tables[3:5], *tables[8:10])]
    assert [row[0] for row in rows] == ["1", "3"] * 2
    assert all(float(cell) > 0 for row in rows[::2] for cell in row) and all(row[1:3] == ["", ""] for row in rows[1::2])
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert [row["case"] for row in rows] == ["1 s", "3 s"]
    assert [list(row["measured"]) for row in rows] == [["espnet", "softmax", "window"], ["window"]]
    assert all(one["peak"] > 0 and len(one["seconds"]) == 1 for row in rows for one in row["measured"].values())
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_it_runs_as_a_program():
    run = [sys.executable, str(SCRIPT), *TINY, "--seconds", "1", "--cores", "window", "cdt"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| seconds of audio | window | cdt |" in done.stdout


def test_passes_in_processes_of_their_own(tmp_path):
    output = tmp_path / "length.json"
    run = [sys.executable, str(SCRIPT), *TINY, "--seconds", "60", "61", "--cores", "luna", "--own_process"]
    done = subprocess.run([*run, "--output", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    peaks = [row["measured"]["luna"]["peak"] for row in rows]
    assert all(1e5 < peak < 1e9 for peak in peaks)
    fit = done.stdout.splitlines()[-1].strip("|").split("|")
    assert fit[0].strip() == "luna" and len(fit) == 5 and fit[4].strip().endswith("%")


def test_the_memory_of_a_process_is_not_that_of_a_gpu(capsys):
    import length

    with pytest.raises(SystemExit, match="2"):
        length.main(["--own_process", "--device", "cuda"])
    assert "--own_process measures the memory of a process, not that of a GPU; leave out" in capsys.readouterr().err


def test_unknown_cores_are_refused(capsys):
    import length

    with pytest.raises(SystemExit, match="2"):
        length.main(["--cores", "windows"])
    assert "argument --cores: invalid choice: 'windows'" in capsys.readouterr().err
