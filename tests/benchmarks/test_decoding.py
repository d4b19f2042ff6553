"""The benchmark of searches, as a user runs it at a tiny size: a complete table; times are not judged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "decoding.py"


def benchmark(*options):
    command = [sys.executable, SCRIPT, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)


def rows(result):
    """The cells of the table, row by row."""
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [line.strip("|").split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def check(lines, names, pairs):
    """Rows of these names, speeds and ratios, and as many pairs with the same text and score."""
    assert [line[0] for line in lines] == names
    for line in lines:
        assert float(line[1]) > 0 and all(cell.endswith(" x)") for cell in line[2:-2])
        assert line[-2] == f"{pairs}/{pairs}" and float(line[-1]) < 1e-4


@pytest.mark.slow
def test_the_table_is_complete_and_the_searches_agree():
    size = ["--config", "model/tiny", "--characters", 60, "--lengths", 1, 2, "--batches", 1, 3, "--repeats", 1]
    header, *lines = rows(benchmark(*size, "--utterances", 3, "--espnet_utterances", 2, "--espnet_batches", 2))
    assert header[:5] == ["utterances", "ESPnet RTF", "ESPnet batch 2", "single", "batch 3"]
    check(lines, ["2x1/32/64, 1 s", "2x1/32/64, 2 s"], pairs=6)


@pytest.mark.slow
def test_translations_agree_as_well():
    shape = ["encoder_conf.output_size=32", "frontend_conf.embed_dim=32", "encoder_conf.num_blocks=1"]
    size = [word for value in (*shape, "decoder_conf.num_blocks=1") for word in ("--set", value)]
    size += ["--characters", 60, "--lengths", 6, "--batches", 1, 3, "--repeats", 1, "--beam_size", 4]
    header, *lines = rows(benchmark("--task", "mt", *size, "--utterances", 3, "--espnet_utterances", 2))
    assert header[:4] == ["utterances", "ESPnet tokens a second", "single", "batch 3"]
    check(lines, ["1x1/32/512, 6 tokens"], pairs=4)


@pytest.mark.slow
def test_precisions_have_columns_of_their_own():
    size = ["--config", "model/tiny", "--characters", 60, "--lengths", 1, "--batches", 1, 2, "--repeats", 1]
    options = ["--precisions", "float32", "int8", "--utterances", 2, "--espnet_utterances", 1, "--espnet_batches"]
    header, line = rows(benchmark(*size, *options))
    assert header[2:6] == ["single", "batch 2", "single int8", "batch 2 int8"]
    assert all(cell.endswith(" x)") for cell in line[2:6]) and line[6].endswith("/4")


def test_espnet_has_no_batches_of_translation():
    result = benchmark("--task", "mt", "--espnet_batches", 8)
    assert result.returncode == 2
    assert "ESPnet translates one text at a time" in result.stderr.splitlines()[-1]


def test_a_trained_model_needs_data():
    result = benchmark("--model_dir", "exp")
    assert result.returncode == 2
    assert "--model_dir and --data_dir go together" in result.stderr.splitlines()[-1]
