"""The benchmark of growth at tiny sizes: complete table, JSON and plot; times are not judged."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from espnet_diverse.data.validate import find_faults

SIZES = ["--rows", "20", "60"]


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import growth

    return growth


def test_table_file_and_plot_are_complete(growth, tmp_path, capsys):
    output, plot = tmp_path / "growth.json", tmp_path / "growth.png"
    given = [*SIZES, "--work_dir", str(tmp_path / "work"), "--stages", "validate", "tokens"]
    growth.main([*given, "--output", str(output), "--plot", str(plot)])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows[0] == ["utterances", "validate", "tokens"] and [row[0] for row in rows[1:]] == ["20", "60"]
    assert all("µs" not in cell and cell.endswith(" GB") for row in rows[1:] for cell in row[1:])
    measured = json.loads(output.read_text(encoding="utf-8"))
    assert [(one["rows"], one["stage"]) for one in measured] == [
        (rows, stage) for rows in (20, 60) for stage in ("validate", "tokens")
    ]
    assert all(one["done"] and one["peak"] > 1e7 and one["cpu"] > 0 and one["seconds"] > 0 for one in measured)
    assert plot.read_bytes().startswith(b"\x89PNG") and not list((tmp_path / "work").iterdir())


def test_earlier_measurements_join_the_table(growth, tmp_path, capsys):
    file = tmp_path / "earlier.json"
    first, second = (
        growth.Measured(10, "train", 9.0, 5.0, 10**9),
        growth.Measured(10_010, "train", 9.0, 15.0, 2 * 10**9),
    )
    file.write_text(json.dumps([asdict(second), asdict(growth.Measured(10, "stats", 1.0, 1.0, 10**9, False))]))
    more = tmp_path / "more.json"
    more.write_text(json.dumps([asdict(first)]))
    growth.main(["--rows", "--work_dir", str(tmp_path), "--add", str(file), str(more)])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "| utterances | stats | train |",
        "|---|---|---|",
        "| 10 | stopped at 1.00 GB | 5.0 s, 1.00 GB |",
        "| 10,010 |  | 15 s, 1000.0 µs, 2.00 GB |",
    ]


def test_a_stage_that_takes_too_much_memory_is_stopped_and_named(growth, tmp_path, capfd):
    given = ["--rows", "20", "--work_dir", str(tmp_path), "--stages", "validate", "--memory_limit", "0.004"]
    growth.main(given)
    assert "| 20 | stopped at " in capfd.readouterr().out


def test_the_data_have_no_fault_and_hardly_a_sentence_twice(growth, tmp_path):
    growth.write_text_data(tmp_path / "train", 300, seed=1)
    growth.write_text_data(tmp_path / "again", 300, seed=1)
    assert find_faults(tmp_path / "train") == []
    texts = [line.split(maxsplit=1)[1] for line in (tmp_path / "train" / "text").read_text().splitlines()]
    assert len(texts) == 300 and len(set(texts)) > 280
    for table in ("text", "src_text"):
        first, second = ((tmp_path / name / table).read_text() for name in ("train", "again"))
        assert first.replace("train-", "again-") == second


@pytest.mark.slow
def test_every_stage_runs(growth, tmp_path, capsys):
    growth.main(["--rows", "200", "--work_dir", str(tmp_path)])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 200 ")]
    assert row.count(" GB") == len(growth.DATA["text"]) and "stopped" not in row


def test_tables_of_audio_have_no_fault_and_every_path_differs(growth, tmp_path, capsys):
    growth.write_speech_data(tmp_path / "train", 250, seed=1)
    assert find_faults(tmp_path / "train", decode=False) == []
    stages = ["validate", "prepare", "combine", "fix"]
    growth.main(["--data", "speech", "--rows", "20", "--work_dir", str(tmp_path), "--stages", *stages])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 20 ")]
    assert row.count(" GB") == len(stages) and "stopped" not in row
